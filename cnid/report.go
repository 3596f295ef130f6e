// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kube"
)

// componentName is who events and conditions come from.
const componentName = "alioth-cnid"

// reporter tells people, through the API, what this node does.
type reporter struct {
	node string
	api  *kube.Client
	log  *slog.Logger
}

// refused writes an event for a pod that this node refuses something. It does not
// wait for the API server.
func (r *reporter) refused(pod journal.Pod, reason, message string) {
	r.warn(podReference(pod), reason, message)
}

// lost writes an event for a pod that has lost its address, and one for the
// node, where it outlives the pod. It does not wait for the API server.
func (r *reporter) lost(l plan.Lost) {
	pod := l.Record.Pod
	r.log.Error("pod has lost its address and is cut off", "pod", pod.String(), "podUID", pod.UID, "reason", l.Reason)
	r.warn(podReference(pod), v1alpha1.AddressLostReason, l.Reason+"; the pod is cut off: delete it")
	r.warn(nodeReference(r.node), v1alpha1.AddressLostReason, fmt.Sprintf("pod %s has lost its address and is cut off: %s; delete the pod", pod, l.Reason))
}

// closed writes an event for a pod to which a port of this node leads no more.
func (r *reporter) closed(c plan.ClosedPort) {
	r.warn(podReference(c.Pod), c.Refusal.Reason, c.Refusal.Message)
}

// nodeReference names a Node as the kubelet does in its events, by which people
// find them: the name stands for the UID.
func nodeReference(node string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
}

// podReference names a pod's object.
func podReference(pod journal.Pod) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID)}
}

func (r *reporter) warn(about corev1.ObjectReference, reason, message string) {
	event := r.event(about, reason, message)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
		defer cancel()
		if err := r.api.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
			r.log.Warn("can't write an event", "kind", about.Kind, "name", about.Name, "reason", reason, "error", err)
		}
	}()
}

// event is named after what it says, so that saying it again while the API
// server remembers makes no second one. What has no namespace has its events in
// the default one.
func (r *reporter) event(about corev1.ObjectReference, reason, message string) *eventsv1.Event {
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	digest := sha256.Sum256([]byte(string(about.UID) + "\x00" + reason + "\x00" + message))
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: eventName(about.Name, digest[:8])},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "alioth.dev/" + componentName, ReportingInstance: r.node,
		Action: "Attach", Reason: reason, Type: corev1.EventTypeWarning, Note: shorten(message),
		Regarding: about,
	}
}

// eventName makes the name of an event of the name of what it is about, as much
// of it as there is room for, and of a digest.
func eventName(about string, digest []byte) string {
	end := fmt.Sprintf(".%x", digest)
	return strings.TrimRight(about[:min(len(about), maxName-len(end))], "-.") + end
}

// maxName is the longest name of an object, in bytes (RFC 1123).
const maxName = 253

// maxNote is the API's limit on the text of an event, in bytes.
const maxNote = 1024

func shorten(text string) string {
	if len(text) <= maxNote {
		return text
	}
	return text[:maxNote-3] + "..."
}

// networkAvailable clears the condition NetworkUnavailable on this node's Node
// object, and again when another object takes its place, until ctx ends.
func (r *reporter) networkAvailable(ctx context.Context, s *store.Store) {
	var done string
	for ctx.Err() == nil {
		var uid string
		err := s.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool {
			row := store.GetNode(tx, r.node)
			if row == nil || row.UID == done {
				return false
			}
			uid = row.UID
			return true
		})
		if err != nil {
			return
		}
		if err := r.patchCondition(ctx); err != nil {
			r.log.Warn("can't clear the node's condition NetworkUnavailable; trying again", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(retryReleases):
			}
			continue
		}
		done = uid
	}
}

func (r *reporter) patchCondition(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse,
		Reason: "AliothIsUp", Message: "Alioth's datapath is programmed on this node",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}}})
	if err != nil {
		return fmt.Errorf("encode condition: %w", err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.node}}
	if err := r.api.Patch(ctx, node, types.StrategicMergePatchType, patch, "status"); err != nil {
		return fmt.Errorf("patch node status: %w", err)
	}
	return nil
}
