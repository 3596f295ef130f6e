// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report reports the state of a node and its pods through the API server: by
// events, and by conditions of the Node object.
package report

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Component is the source of events and conditions.
const Component = "alioth-cnid"

// retryAfter is the wait after a request to the API server that has failed.
const retryAfter = time.Second

// events writes this node's events to the API.
type events struct {
	node string
	api  *kube.Client
	log  *slog.Logger
}

// Refused writes an event for a refused request of a pod. It does not wait for the API
// server.
func (r *events) Refused(pod journal.Pod, reason, message string) {
	r.warn(podReference(pod), reason, message)
}

// Lost writes an event for a pod that has lost its address, and one for the
// node, because that one outlives the pod. It does not wait for the API server.
func (r *events) Lost(l plan.Lost) {
	pod := l.Record.Pod
	r.log.Error("pod has lost its address and is cut off", "pod", pod.String(), "podUID", pod.UID, "reason", l.Reason)
	r.warn(podReference(pod), v1alpha1.AddressLostReason, l.Reason+"; the pod is cut off: delete it")
	r.warn(
		nodeReference(r.node),
		v1alpha1.AddressLostReason,
		fmt.Sprintf("pod %s has lost its address and is cut off: %s; delete the pod", pod, l.Reason),
	)
}

// Closed writes an event for a pod that has lost a port of this node.
func (r *events) Closed(c plan.ClosedPort) {
	r.warn(podReference(c.Pod), c.Refusal.Reason, c.Refusal.Message)
}

// nodeReference names a Node as the kubelet does in its events, so that kubectl finds
// them: the name replaces the UID.
func nodeReference(node string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
}

// podReference names a pod's object.
func podReference(pod journal.Pod) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "v1",
		Kind:       "Pod",
		Namespace:  pod.Namespace,
		Name:       pod.Name,
		UID:        types.UID(pod.UID),
	}
}

func (r *events) warn(about corev1.ObjectReference, reason, message string) {
	event := r.event(about, reason, message)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), kube.RequestTimeout)
		defer cancel()
		if err := r.api.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
			r.log.Warn("can't write an event", "kind", about.Kind, "name", about.Name, "reason", reason, "error", err)
		}
	}()
}

// event returns an event whose name depends on its content, so that a repetition creates
// no second one while the API server keeps the first. An object without a namespace has
// its events in the namespace default.
func (r *events) event(about corev1.ObjectReference, reason, message string) *eventsv1.Event {
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	digest := sha256.Sum256([]byte(string(about.UID) + "\x00" + reason + "\x00" + message))
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: eventName(about.Name, digest[:8])},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "alioth.dev/" + Component, ReportingInstance: r.node,
		Action: "Attach", Reason: reason, Type: corev1.EventTypeWarning, Note: v1alpha1.EventNote(message),
		Regarding: about,
	}
}

// eventName makes the name of an event from the name of its object, shortened if
// necessary, and a digest.
func eventName(about string, digest []byte) string {
	end := fmt.Sprintf(".%x", digest)
	return strings.TrimRight(about[:min(len(about), maxName-len(end))], "-.") + end
}

// maxName is the longest name of an object, in bytes (RFC 1123).
const maxName = 253

// Repaired writes an event on the Node for each kind of repair. It does not
// wait for the API server.
func (r *Reporter) Repaired(list []finding.Repair) {
	for _, message := range repairMessages(list) {
		go r.write(r.event(nodeReference(r.node), v1alpha1.RepairedReason, message))
	}
}

// NotRestored writes an event on the Node whose own network is not all that it was before a
// change. It does not wait for the API server.
func (r *Reporter) NotRestored(message string) {
	r.warn(nodeReference(r.node), v1alpha1.NetworkNotRestoredReason, message)
}

// LinksFailed writes an event on the Node for each of the first few failures of host links.
// It does not wait for the API server.
func (r *Reporter) LinksFailed(list []multinet.LinkFailure) {
	const most = 5
	for _, failure := range list[:min(len(list), most)] {
		r.warn(nodeReference(r.node), v1alpha1.HostLinkFailedReason, failure.Message)
	}
}

// repairMessages returns one message for each kind, with the first few repairs.
func repairMessages(list []finding.Repair) []string {
	const most = 5
	byKind := map[string][]string{}
	for _, r := range list {
		byKind[r.Kind] = append(byKind[r.Kind], r.Detail)
	}
	var messages []string
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		details := byKind[kind]
		slices.Sort(details) // so that the same damage gives the same message
		named := details[:min(len(details), most)]
		messages = append(messages, fmt.Sprintf("deleted or changed by another program, and repaired: %s%s",
			strings.Join(named, ", "), finding.AndMore(len(details)-len(named))))
	}
	return messages
}

// Restored writes an event on a pod whose interface was restored, or, with a cause, could
// not be restored.
func (r *Reporter) Restored(pod journal.Pod, cause error) {
	reason, message := v1alpha1.InterfaceRestoredReason, "the pod's interface was deleted on its node by another program, and was restored"
	if cause != nil {
		reason = v1alpha1.InterfaceLostReason
		message = fmt.Sprintf(
			"the pod's interface was deleted, moved or renamed on its node and can't be restored (%v): delete the pod",
			cause,
		)
	}
	go r.write(r.event(podReference(pod), reason, message))
}

// write creates an event, or increments the count of an earlier one with the same
// content.
func (r *Reporter) write(event *eventsv1.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), kube.RequestTimeout)
	defer cancel()
	err := r.api.Create(ctx, event)
	if apierrors.IsAlreadyExists(err) {
		err = r.repeat(ctx, event)
	}
	if err != nil {
		r.log.Warn("can't write an event", "object", event.Regarding.Name, "reason", event.Reason, "error", err)
	}
}

func (r *Reporter) repeat(ctx context.Context, event *eventsv1.Event) error {
	patch, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{
		Count: r.count(event.Name), LastObservedTime: metav1.NowMicro(),
	}})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return r.api.Patch(ctx, event, types.MergePatchType, patch)
}

// count returns the count of a repeated event: 2 the first time.
func (r *Reporter) count(name string) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[name] = max(r.counts[name], 1) + 1
	return r.counts[name]
}
