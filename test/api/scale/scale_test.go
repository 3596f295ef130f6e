// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale has the small run of the scale lab: what nodes receive, counted. The lab
// measures nothing here; `make bench-scale` does.
package scale

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/alioth-net/alioth/test/bench/scale"
)

// size is that of the small run. A hollow node costs as much as many holders of watches.
var size = scale.Size{Nodes: 12, Hollow: 3, PodsPerNode: 4}

// TestNodesReceiveWhatTheyFollow runs on one lab, which takes longest to come up.
func TestNodesReceiveWhatTheyFollow(t *testing.T) {
	ctrllog.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	began := time.Now()
	lab, err := scale.Start(ctx, "../../..", size, func(line string) { t.Logf("%5.1f s: %s", time.Since(began).Seconds(), line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("hollow nodes hold their VPCs", func(t *testing.T) { holdsItsVPCs(t, lab) })
	t.Run("a pod of a VPC on two nodes", func(t *testing.T) { isolated(ctx, t, lab) })
	t.Run("pods of a VPC on all nodes", func(t *testing.T) { pushed(ctx, t, lab) })
	t.Run("another operator is answered", func(t *testing.T) {
		if _, err := lab.Restart(ctx); err != nil {
			t.Error(err)
		}
	})
}

// holdsItsVPCs: a hollow node has all rows of all VPCs that it has pods of.
func holdsItsVPCs(t *testing.T, lab *scale.Lab) {
	t.Helper()
	want := size.Rows()
	for i, rows := range lab.Held() {
		if rows != want {
			t.Errorf("node %d has %d rows, want %d", i, rows, want)
		}
	}
}

// checkCounts compares the events of kinds. The operator's questions are left out: it repeats
// them when it was elected again, as may happen on a busy machine.
func checkCounts(t *testing.T, node int, got scale.Counts, want map[string]int) {
	t.Helper()
	for resource, received := range got {
		if resource != "rollcalls" && received.Events != want[resource] {
			t.Errorf("node %d received %d events of %s, want %d", node, received.Events, resource, want[resource])
		}
		if received.Listed != 0 {
			t.Errorf("node %d listed %s again", node, resource)
		}
	}
	for resource, events := range want {
		if _, ok := got[resource]; !ok && events > 0 {
			t.Errorf("node %d received no event of %s, want %d", node, resource, events)
		}
	}
}

// isolated: the pod's node receives the pod and its status, and the Address by both ways on
// which it follows it; the other node of the VPC the Address; all others nothing of any kind.
func isolated(ctx context.Context, t *testing.T, lab *scale.Lab) {
	t.Helper()
	all, err := lab.Isolated(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, counts := range all {
		want := map[string]int{}
		switch i {
		case 0:
			want = map[string]int{"pods": 2, "addresses": 2}
		case 1:
			want = map[string]int{"addresses": 1}
		}
		checkCounts(t, i, counts, want)
	}
}

// pushed: each node receives every Address of a VPC that it has a pod of, and its own once
// more: N + 1 events for each Address.
func pushed(ctx context.Context, t *testing.T, lab *scale.Lab) {
	t.Helper()
	const pods = 10
	p, err := lab.Push(ctx, pods, 20)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for i, counts := range p.Received {
		own := 0
		if i < pods { // pods are on all nodes in turn
			own = 1
		}
		checkCounts(t, i, counts, map[string]int{"pods": 2 * own, "addresses": pods + own})
		sum += counts["addresses"].Events
	}
	if want := pods * (size.Nodes + 1); sum != want {
		t.Errorf("%d events of Addresses at all nodes, want %d", sum, want)
	}
	if len(p.Everywhere) != pods || len(p.Attached) != size.Hollow {
		t.Errorf("%d pods are in all plans, %d attached, want %d and %d", len(p.Everywhere), len(p.Attached), pods, size.Hollow)
	}
}
