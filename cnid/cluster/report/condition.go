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

	"github.com/alioth-net/alioth/api/quote"
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
	// review is the interval at which Run compares the conditions with the API: another program may
	// have deleted or changed them.
	review time.Duration
	store  *store.Store

	mu sync.Mutex
	// known is true once the node's problems have been determined.
	known bool
	now   []finding.Problem
	// programmed is true once the node's datapath is programmed.
	programmed bool
	// announced is true while the node's object has the conditions of this daemon, as far as the
	// daemon knows.
	announced bool
	// changed is sent when one of these has changed.
	changed broadcast.Signal
	// counts has the number of writes of each event.
	counts map[string]int32
}

// New returns a reporter of a node.
func New(node string, api *kube.Client, s *store.Store, review time.Duration, log *slog.Logger) *Reporter {
	return &Reporter{events: &events{node: node, api: api, log: log}, store: s, review: review, counts: map[string]int32{}}
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

// Programmed clears the condition NetworkUnavailable from now on.
func (r *Reporter) Programmed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programmed = true
	r.changed.Send()
}

// NodeMarked reports whether the node's object has a condition of this daemon. Before that, the
// operator may release addresses as on a node without a daemon (docs/design/159).
func (r *Reporter) NodeMarked() (bool, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.announced, r.changed.Next()
}

func (r *Reporter) setNodeMarked(announced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.announced != announced {
		r.announced = announced
		r.changed.Send()
	}
}

// conditions returns the desired conditions, and a channel that is closed when they change; none
// before the first call of Problems or Programmed.
func (r *Reporter) conditions() (want []corev1.NodeCondition, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.programmed {
		want = append(want, available())
	}
	if r.known {
		want = append(want, healthCondition(r.now))
	}
	return want, r.changed.Next()
}

// healthCondition summarizes the problems. Its reason is the reason of the gravest problem.
func healthCondition(list []finding.Problem) corev1.NodeCondition {
	c := corev1.NodeCondition{
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
	c.Status, c.Reason, c.Message = corev1.ConditionFalse, list[0].Reason, quote.Message(strings.Join(messages, "; "))
	return c
}

// Run keeps the conditions on this node's Node object, and on a new object that replaces it, until
// ctx ends. It writes again what another program deletes or changes.
func (r *Reporter) Run(ctx context.Context) {
	var done []corev1.NodeCondition
	var doneUID string
	for {
		want, uid, err := r.wait(ctx, done, doneUID)
		if err != nil {
			return
		}
		if len(want) == 0 || uid == "" {
			continue
		}
		if uid != doneUID {
			r.setNodeMarked(false)
		}
		if err := r.setConditions(ctx, want); err != nil {
			r.log.Warn("can't write the node's conditions; trying again", "error", err)
			done, doneUID = nil, ""
			select {
			case <-ctx.Done():
				return
			case <-time.After(retryAfter):
			}
			continue
		}
		done, doneUID = want, uid
		r.setNodeMarked(true)
	}
}

// wait returns the desired conditions and the UID of the node's object when they differ from the
// written ones, and after the interval of reviews.
func (r *Reporter) wait(
	ctx context.Context,
	done []corev1.NodeCondition,
	doneUID string,
) (want []corev1.NodeCondition, uid string, err error) {
	soon, cancel := context.WithTimeout(ctx, r.review)
	defer cancel()
	err = r.store.Wait(soon, func(tx store.ReadTx, ws *store.WatchSet) bool {
		var changed <-chan struct{}
		want, changed = r.conditions()
		ws.Add(changed)
		uid = ""
		if row := store.GetNode(tx, r.node); row != nil {
			uid = row.UID
		}
		return len(want) > 0 && uid != "" && (uid != doneUID || !slices.EqualFunc(want, done, sameCondition))
	})
	if err != nil && ctx.Err() == nil {
		err = nil // it is time to compare with the API
	}
	return want, uid, err
}

func sameCondition(a, b corev1.NodeCondition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// setConditions writes the conditions that differ.
func (r *Reporter) setConditions(ctx context.Context, want []corev1.NodeCondition) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.node}}
	if err := r.api.Get(ctx, node); err != nil {
		return fmt.Errorf("get node: %w", err)
	}
	next := differing(node.Status.Conditions, want, metav1.Now())
	if len(next) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": next}})
	if err != nil {
		return fmt.Errorf("encode conditions: %w", err)
	}
	if err := r.api.Patch(ctx, node, types.StrategicMergePatchType, patch, "status"); err != nil {
		return fmt.Errorf("patch node status: %w", err)
	}
	return nil
}

// differing returns the desired conditions that a node lacks, with their times.
func differing(have, want []corev1.NodeCondition, now metav1.Time) (next []corev1.NodeCondition) {
	for _, c := range want {
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		at := slices.IndexFunc(have, func(h corev1.NodeCondition) bool { return h.Type == c.Type })
		if at >= 0 && sameCondition(have[at], c) {
			continue
		}
		if at >= 0 && have[at].Status == c.Status {
			c.LastTransitionTime = have[at].LastTransitionTime
		}
		next = append(next, c)
	}
	return next
}

// available returns the condition of a node whose datapath is programmed. Programs read the
// version out of the message, as one word (docs/install/versions.md).
func available() corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse,
		Reason: v1alpha1.NetworkUpReason, Message: "the datapath of Alioth " + version.Get().Version + " is programmed on this node",
	}
}
