// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
)

// nodeReporter tells people through the Node object how the node's network is.
type nodeReporter struct {
	*reporter
	store *store.Store

	mu sync.Mutex
	// known is true once a look at the node has told its problems.
	known bool
	now   []problem
	// changed is closed, and replaced, when now has changed.
	changed chan struct{}
	// said counts how often each event was written.
	said map[string]int32
}

func newNodeReporter(r *reporter, s *store.Store) *nodeReporter {
	return &nodeReporter{reporter: r, store: s, changed: make(chan struct{}), said: map[string]int32{}}
}

// problems notes what the condition NetworkHealthy is to say.
func (r *nodeReporter) problems(list []problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known && slices.Equal(r.now, list) {
		return
	}
	r.known, r.now = true, slices.Clone(list)
	close(r.changed)
	r.changed = make(chan struct{})
}

// condition returns what the condition is to say, and a channel that is closed
// when that changes; nil as long as nobody has looked.
func (r *nodeReporter) condition() (*corev1.NodeCondition, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known {
		return nil, r.changed
	}
	return healthCondition(r.now), r.changed
}

// healthCondition sums up the problems: the reason is the gravest one's.
func healthCondition(list []problem) *corev1.NodeCondition {
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
	c.Status, c.Reason, c.Message = corev1.ConditionFalse, list[0].Reason, strings.Join(messages, "; ")
	return c
}

// run keeps the condition on this node's Node object, and on another one that
// takes its place, until ctx ends.
func (r *nodeReporter) run(ctx context.Context) {
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
			case <-time.After(retryReleases):
			}
			continue
		}
		done, doneUID = want, uid
	}
}

func sameCondition(a, b *corev1.NodeCondition) bool {
	return a != nil && b != nil && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// setCondition writes the condition unless it is there already.
func (r *nodeReporter) setCondition(ctx context.Context, want *corev1.NodeCondition) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
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

// repaired writes an event on the Node for each kind of repair. It does not
// wait for the API server.
func (r *nodeReporter) repaired(list []repair) {
	for _, message := range repairMessages(list) {
		go r.write(r.event(nodeReference(r.node), v1alpha1.RepairedReason, message))
	}
}

// repairMessages has one message for each kind, which names the first few.
func repairMessages(list []repair) []string {
	const most = 5
	byKind := map[string][]string{}
	for _, r := range list {
		byKind[r.Kind] = append(byKind[r.Kind], r.Detail)
	}
	var messages []string
	for _, kind := range repairKinds() {
		details := byKind[kind]
		if len(details) == 0 {
			continue
		}
		slices.Sort(details) // so that one and the same harm is told in the same words
		named := details[:min(len(details), most)]
		messages = append(messages, fmt.Sprintf("deleted or changed by somebody other than Alioth, and put right: %s%s",
			strings.Join(named, ", "), andMore(len(details)-len(named))))
	}
	return messages
}

// restored writes an event on a pod whose interface was made anew, or, with
// the cause, could not be.
func (r *nodeReporter) restored(pod journal.Pod, cause error) {
	reason, message := v1alpha1.InterfaceRestoredReason, "the pod's interface had been deleted on its node by somebody other than Alioth, and was made anew"
	if cause != nil {
		reason = v1alpha1.InterfaceLostReason
		message = fmt.Sprintf("the pod's interface was deleted, moved or renamed on its node and can't be made anew (%v): delete the pod", cause)
	}
	go r.write(r.event(podReference(pod), reason, message))
}

// write creates an event, or counts it up when it says what an earlier one
// does.
func (r *nodeReporter) write(event *eventsv1.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
	defer cancel()
	err := r.api.Create(ctx, event)
	if apierrors.IsAlreadyExists(err) {
		err = r.repeat(ctx, event)
	}
	if err != nil {
		r.log.Warn("can't write an event", "object", event.Regarding.Name, "reason", event.Reason, "error", err)
	}
}

func (r *nodeReporter) repeat(ctx context.Context, event *eventsv1.Event) error {
	patch, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{
		Count: r.count(event.Name), LastObservedTime: metav1.NowMicro(),
	}})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return r.api.Patch(ctx, event, types.MergePatchType, patch)
}

// count is that of an event which is written again: 2 the first time.
func (r *nodeReporter) count(name string) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said[name] = max(r.said[name], 1) + 1
	return r.said[name]
}
