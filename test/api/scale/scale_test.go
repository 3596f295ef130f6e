// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale has the small run of the scale lab: it counts the data that nodes receive. The lab
// measures nothing here; `make bench-scale` does.
package scale

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/bench/scale"
	"github.com/alioth-net/alioth/test/bench/scale/transport"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// size is the size of the small run. A hollow node costs as much as many holders of watches.
var size = scale.Size{Nodes: 50, Hollow: 6, Bouncers: 3, Bounced: 5, PodsPerNode: 2}

// TestNodeWatches_ScaleLab_OnlyFollowedPartsReceived runs on one lab, which takes longest to come
// up.
func TestNodeWatches_ScaleLab_OnlyFollowedPartsReceived(t *testing.T) {
	needs.Kubernetes(t)
	ctrllog.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(5*time.Minute))
	defer cancel()
	began := time.Now()
	step := func(line string) { t.Logf("%5.1f s: %s", time.Since(began).Seconds(), line) }
	lab, err := scale.Start(ctx, scale.Config{Size: size, Root: "../../..", Server: apiserver.New, Step: step})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("nodes hold their VPCs", func(t *testing.T) { planned(ctx, t, lab) })
	t.Run("a pod of a VPC on two nodes", func(t *testing.T) { isolated(ctx, t, lab) })
	t.Run("pods of a VPC on all nodes", func(t *testing.T) { pushed(ctx, t, lab, size.Nodes+1) })
	t.Run("bouncers hold the VPCs", func(t *testing.T) {
		if err := lab.Bounce(ctx); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a pod of a VPC with bouncers", func(t *testing.T) { isolated(ctx, t, lab) })
	t.Run("pods of a VPC with bouncers", func(t *testing.T) { pushed(ctx, t, lab, size.Bouncers+1) })
	t.Run("another operator is answered", func(t *testing.T) {
		if _, err := lab.Restart(ctx); err != nil {
			t.Error(err)
		}
	})
}

// planned: a hollow node has all rows of all VPCs that it has pods of.
func planned(ctx context.Context, t *testing.T, lab *scale.Lab) {
	t.Helper()
	if err := lab.Planned(ctx); err != nil {
		t.Fatal(err)
	}
}

// checkCounts compares the events of kinds. It leaves out the operator's questions, and the lists
// that answer them: the operator repeats them when it was elected again, as may happen on a busy
// machine.
func checkCounts(t *testing.T, node int, got transport.Counts, want map[string]int) {
	t.Helper()
	for resource, received := range got {
		if resource != "rollcalls" && received.Events != want[resource] {
			t.Errorf("node %d received %d events of %s, want %d", node, received.Events, resource, want[resource])
		}
		if received.Listed != 0 && got["rollcalls"].Events == 0 {
			t.Errorf("node %d listed %s again", node, resource)
		}
	}
	for resource, events := range want {
		if _, ok := got[resource]; !ok && events > 0 {
			t.Errorf("node %d received no event of %s, want %d", node, resource, events)
		}
	}
}

// expected returns the events of a node that has pods of a VPC, after pods of the VPC were made.
// For each of its own pods these are the pod and its status, and the Address. They include every
// Address if the node holds the VPC.
func expected(own, all int, holds bool) map[string]int {
	if !holds {
		all = 0
	}
	return map[string]int{"pods": 2 * own, "addresses": own + all}
}

// isolated: nodes that neither have the pod nor hold its VPC receive nothing of any kind.
func isolated(ctx context.Context, t *testing.T, lab *scale.Lab) {
	t.Helper()
	all, err := lab.Isolated(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, counts := range all {
		own := 0
		if i == 0 {
			own = 1
		}
		checkCounts(t, i, counts, expected(own, 1, lab.HoldsIsolated(i)))
	}
}

// pushed requires the number of events that all nodes together receive for an Address: one at the
// pod's node, and one at each node that holds the VPC.
func pushed(ctx context.Context, t *testing.T, lab *scale.Lab, each int) {
	t.Helper()
	p, err := lab.Push(ctx, size.Nodes, 20) // pods are on all nodes in turn
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for i, counts := range p.Received {
		checkCounts(t, i, counts, expected(1, size.Nodes, lab.HoldsWide(i)))
		sum += counts["addresses"].Events
	}
	if want := size.Nodes * each; sum != want {
		t.Errorf("%d events of Addresses at all nodes, want %d", sum, want)
	}
	if len(p.Everywhere) != size.Nodes || len(p.Attached) != size.Hollow {
		t.Errorf("%d pods are in all plans, %d attached, want %d and %d", len(p.Everywhere), len(p.Attached), size.Nodes, size.Hollow)
	}
	if err := lab.Planned(ctx); err != nil {
		t.Error(err)
	}
}
