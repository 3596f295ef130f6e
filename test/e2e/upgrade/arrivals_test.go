// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/waits"
)

// longestStart is how long a pod may need to start. A daemon that is replaced is away for
// seconds, and the kubelet tries again within seconds after it is back. A pod that waits longer
// has noticed the change.
const longestStart = time.Minute

// arrivals are pods that start one after the other on a node while the version changes.
type arrivals struct {
	stop, done chan struct{}
	// limit is how many come at most, 0 for no limit.
	limit int
	// pods have come. All but the last are deleted again.
	pods    []*corev1.Pod
	longest time.Duration
	err     error
}

// welcome begins to start pods on every node.
func (w *town) welcome(ctx context.Context) []*arrivals {
	var all []*arrivals
	for _, node := range w.Lab.Nodes() {
		a := &arrivals{stop: make(chan struct{}), done: make(chan struct{})}
		go func() {
			defer close(a.done)
			a.err = w.receive(ctx, a, node)
		}()
		all = append(all, a)
	}
	return all
}

// receive starts pods until the test stops it.
func (w *town) receive(ctx context.Context, a *arrivals, node cluster.Node) error {
	for {
		pod := w.blue.Pod(stage.Unique("coming"), append(probed(), scene.OnNode(node.Name))...)
		began := time.Now()
		if err := w.arrive(ctx, pod); err != nil {
			return fmt.Errorf("node %s: %w", node.Name, err)
		}
		a.longest = max(a.longest, time.Since(began))
		a.pods = append(a.pods, pod)
		select {
		case <-a.stop:
			return nil
		default:
		}
		if len(a.pods) == a.limit {
			return nil
		}
		if err := w.Client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
			return err
		}
	}
}

// arrive starts a pod within longestStart.
func (w *town) arrive(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, waits.Limit(longestStart))
	defer cancel()
	return w.Start(ctx, pod)
}

// expectArrived ends the arrivals, and returns the pods that stay, one per node. The only permitted
// reason of a failed start is an absent daemon on the pod's node.
func (w *town) expectArrived(t *testing.T, all []*arrivals) []*corev1.Pod {
	t.Helper()
	var stay []*corev1.Pod
	for _, a := range all {
		close(a.stop)
		<-a.done
		if a.err != nil {
			t.Errorf("a pod did not start: %v", a.err)
			continue
		}
		last := a.pods[len(a.pods)-1]
		t.Logf("%d pods have started on %s, the slowest within %s", len(a.pods), last.Spec.NodeName, a.longest.Round(time.Millisecond))
		for _, pod := range a.pods {
			w.expectNoComplaint(t, pod)
		}
		stay = append(stay, last)
	}
	return stay
}

// expectNoComplaint requires that events about a pod report at most three conditions that pass: its
// node's daemon is absent, or the kubelet still probes an earlier pod that had the address, or the
// API server does not yet know the node of the pod, whose kubelet asks for a token to mount. A new
// leader does not know the addresses that were released shortly before (ipam.Resting), so it may
// assign such an address. The pod waits until the kubelet has ended.
func (w *town) expectNoComplaint(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	events, err := w.Events(within(t), pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		// The kubelet may ask before the server of the pod listens.
		passes := event.Reason == "Unhealthy" || strings.Contains(event.Message, "network is not ready") ||
			strings.Contains(event.Message, "token bound to a pod scheduled on a different node") ||
			event.Reason == v1alpha1.ProbeConflictReason && strings.Contains(event.Message, "may still probe for a moment")
		if event.Type == corev1.EventTypeWarning && !passes {
			t.Errorf("event of %s: %s: %s", pod.Name, event.Reason, event.Message)
		}
	}
}
