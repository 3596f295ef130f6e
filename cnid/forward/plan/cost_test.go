// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"

	"github.com/alioth-net/alioth/store"
)

// manyVPCs is a node with a pod of each of so many VPCs.
func manyVPCs(t testing.TB, count int) *world {
	t.Helper()
	w := newWorld(t, node("node1", "192.0.2.1", "2001:db8::1"), node("node2", "192.0.2.2"))
	for i := range count {
		name := fmt.Sprintf("vpc-%d", i)
		w.put(t, vpc(name, uint32(100+i), "10.10.0.0/16"), subnet("s-"+name, name, 1, true, "10.10.1.0/24", "10.10.1.1"))
		w.attach(name, uint32(100+i), "pod-"+name, "10.10.1.10/24")
	}
	return w
}

// change adds an address to a VPC, or removes it, and plans.
func (w *world) change(t testing.TB, p *Planner, n int) {
	t.Helper()
	if n%2 == 0 {
		w.put(t, address("vpc-0", "10.10.1.20", "node2", store.HolderPod, "far"))
	} else {
		w.put(t, func(tx store.Tx) error {
			store.DeleteAddress(tx, "vpc-0.10.10.1.20", "vpc-010.10.1.20")
			return nil
		})
	}
	w.plan(p, serveNodePorts)
}

// A change of one VPC copies and compares nothing of the others. Allocations stand for
// the work; what remains of the number of VPCs is a few of them for larger maps.
func TestPlanCost_OneChange_OtherVPCUntouched(t *testing.T) {
	allocations := func(vpcs int) float64 {
		w, p, n := manyVPCs(t, vpcs), &Planner{}, 0
		w.plan(p, serveNodePorts)
		return testing.AllocsPerRun(20, func() { w.change(t, p, n); n++ })
	}
	if few, many := allocations(10), allocations(200); many > few+60 {
		t.Errorf("a change allocates %.0f times with 200 VPCs, %.0f with 10", many, few)
	}
}

// BenchmarkAChangedVPC adds or removes an address in one of 1,000 VPCs and plans.
func BenchmarkAChangedVPC(b *testing.B) {
	w, p := manyVPCs(b, 1000), &Planner{}
	w.plan(p, serveNodePorts)
	for n := 0; b.Loop(); n++ {
		w.change(b, p, n)
	}
}
