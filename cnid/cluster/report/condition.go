// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/said"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

// Reporter reports the state of the node's network in the Node object.
type Reporter struct {
	*events
	store *store.Store

	mu sync.Mutex
	// known is true once the node's problems have been determined.
	known bool
	now   []finding.Problem
	// changed is sent when now has changed.
	changed broadcast.Signal
	// said has the number of writes of each event.
	said map[string]int32
}

// New returns a reporter of a node.
func New(node string, api *kube.Client, s *store.Store, log *slog.Logger) *Reporter {
	return &Reporter{events: &events{node: node, api: api, log: log}, store: s, said: map[string]int32{}}
}

// Problems sets the content of the condition NetworkHealthy.
func (r *Reporter) Problems(list []finding.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known && slices.Equal(r.now, list) {
		return
	}
	r.known, r.now = true, slices.Clone(list)
	r.changed.Send()
}

// condition returns the desired condition, and a channel that is closed when it changes;
// nil before the first call of Problems.
func (r *Reporter) condition() (*corev1.NodeCondition, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known {
		return nil, r.changed.Next()
	}
	return healthCondition(r.now), r.changed.Next()
}

// healthCondition summarizes the problems. Its reason is the reason of the gravest problem.
func healthCondition(list []finding.Problem) *corev1.NodeCondition {
	c := &corev1.NodeCondition{
		Type: v1alpha1.NetworkHealthyCondition, Status: corev1.ConditionTrue,
		Reason: v1alpha1.NetworkHealthyReason, Message: "nothing waits for a person",
	}
	if len(list) == 0 {
		return c
	}
	var messages []string
	for _, p := range list {
		messages = append(messages, p.Message)
	}
	c.Status, c.Reason, c.Message = corev1.ConditionFalse, list[0].Reason, said.Message(strings.Join(messages, "; "))
	return c
}

// Run keeps the condition on this node's Node object, and on a new object that replaces
// it, until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	var done *corev1.NodeCondition
	var doneUID string
	for ctx.Err() == nil {
		var want *corev1.NodeCondition
		var uid string
		err := r.store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
			var changed <-chan struct{}
			want, changed = r.condition()
			ws.Add(changed)
			if row := store.GetNode(tx, r.node); row != nil {
				uid = row.UID
			}
			return want != nil && uid != "" && (uid != doneUID || !sameCondition(want, done))
		})
		if err != nil {
			return
		}
		if err := r.setCondition(ctx, want); err != nil {
			r.log.Warn("can't write the node's condition; trying again", "condition", want.Type, "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
			continue
		}
		done, doneUID = want, uid
	}
}

func sameCondition(a, b *corev1.NodeCondition) bool {
	return a != nil && b != nil && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// setCondition writes the condition if it differs.
func (r *Reporter) setCondition(ctx context.Context, want *corev1.NodeCondition) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.node}}
	if err := r.api.Get(ctx, node); err != nil {
		return fmt.Errorf("get node: %w", err)
	}
	next := *want
	next.LastHeartbeatTime, next.LastTransitionTime = metav1.Now(), metav1.Now()
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == want.Type })
	if at >= 0 {
		have := node.Status.Conditions[at]
		if sameCondition(&have, want) {
			return nil
		}
		if have.Status == want.Status {
			next.LastTransitionTime = have.LastTransitionTime
		}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{next}}})
	if err != nil {
		return fmt.Errorf("encode condition: %w", err)
	}
	if err := r.api.Patch(ctx, node, types.StrategicMergePatchType, patch, "status"); err != nil {
		return fmt.Errorf("patch node status: %w", err)
	}
	return nil
}

// NetworkAvailable clears the condition NetworkUnavailable on this node's Node
// object, and again on a new object that replaces it, until ctx ends.
func (r *Reporter) NetworkAvailable(ctx context.Context) {
	var done string
	for ctx.Err() == nil {
		var uid string
		err := r.store.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool {
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
		if err := r.setCondition(ctx, available()); err != nil {
			r.log.Warn("can't clear the node's condition NetworkUnavailable; trying again", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
			continue
		}
		done = uid
	}
}

// available returns the condition of a node whose datapath is programmed. Programs read the
// version out of the message, as one word (docs/install/versions.md).
func available() *corev1.NodeCondition {
	return &corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse,
		Reason: v1alpha1.NetworkUpReason, Message: "the datapath of Alioth " + version.Get().Version + " is programmed on this node",
	}
}
