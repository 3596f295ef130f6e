// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceplan

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

var (
	vip  = netip.MustParseAddr("10.96.1.1")
	pod  = netip.MustParseAddr("10.10.1.10")
	self = netip.MustParseAddr("169.254.64.2")
)

// node is a node with the VPC blue, and the operator's verdicts about Services of the VPC.
type node struct {
	*testing.T
	store *store.Store
	Planner
	here Here
}

func newNode(t *testing.T) *node {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{T: t, store: s, here: Here{Numbers: map[string]uint32{"blue": 20}, Reached: map[VPCAddress]netip.Addr{{"blue", pod}: self}}}
	n.update(func(tx store.Tx) error {
		return store.PutVPC(tx, &store.VPC{Meta: store.Meta{UID: "blue"}, Name: "blue", VNI: 20, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.10.0.0/16")}})
	})
	return n
}

func (n *node) update(change func(store.Tx) error) {
	n.Helper()
	if err := n.store.Update(change); err != nil {
		n.Fatal(err)
	}
}

// judge writes the verdict about a Service that was created in a year: port 80 of one virtual
// address, and a node port, lead to the pod at another port.
func (n *node) judge(name string, year int, target uint16) {
	n.Helper()
	n.update(func(tx store.Tx) error {
		return scaled.Put(tx, &scaled.Endpoint{
			Meta: store.Meta{UID: name}, Name: name,
			ID: scaled.ID{Namespace: "blue", Service: name, ServiceUID: name, VPC: "blue", VPCUID: "blue"},
			Head: &scaled.Head{
				Created: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), ClusterIPs: []netip.Addr{vip},
				Ports: []store.ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080}}, UsedRows: 2, UsedBackends: 1,
			},
			Backends: []scaled.Backend{{IP: pod, Node: "node1", PodUID: "pod", Targets: []scaled.Target{{Protocol: "TCP", Port: 80, Target: target}}}},
		})
	})
}

// plan plans the stale Services in the node's place of the moment.
func (n *node) plan(mark func(*Stale)) (changed bool) {
	n.Helper()
	stale := NewStale()
	mark(&stale)
	n.store.View(func(tx store.ReadTx) {
		changed = n.Plan(tx, Config{Node: "node1", DefaultVPC: "default", NodePorts: true, ScaledEndpoints: true}, &n.here, &stale)
	})
	return changed
}

// backends returns the targets of the virtual address, and of the node port.
func (n *node) backends() (virtual, outside []uint16) {
	all := n.ByVNI()[20]
	if a := all.Get(vip); a != nil {
		for _, service := range a.Services {
			virtual = append(virtual, targets(service)...)
		}
	}
	for _, frontend := range n.Frontends() {
		for _, at := range frontend.Here {
			outside = append(outside, at.Port())
		}
	}
	return virtual, outside
}

func targets(service state.Service) (list []uint16) {
	for _, backend := range service.Backends {
		list = append(list, backend.Port)
	}
	return list
}

func TestPlanner_TwoClaimants_OlderServed(t *testing.T) {
	n := newNode(t)
	n.judge("young", 2002, 8002)
	n.judge("old", 2001, 8001)
	if !n.plan(func(s *Stale) { s.All = true }) {
		t.Error("the first plan changed nothing")
	}
	if virtual, outside := n.backends(); !slices.Equal(virtual, []uint16{8001}) || !slices.Equal(outside, []uint16{8001}) {
		t.Errorf("the ports are %v inside and %v outside, want those of the older Service", virtual, outside)
	}
	n.update(func(tx store.Tx) error { scaled.Delete(tx, "old", "old"); return nil })
	if !n.plan(func(s *Stale) { s.Mark("blue", "old") }) {
		t.Error("the end of a Service changed nothing")
	}
	if virtual, outside := n.backends(); !slices.Equal(virtual, []uint16{8002}) || !slices.Equal(outside, []uint16{8002}) {
		t.Errorf("the ports are %v inside and %v outside, want those of the remaining Service", virtual, outside)
	}
}

func TestPlanner_SameRows_NothingChanged(t *testing.T) {
	n := newNode(t)
	n.judge("web", 2001, 8001)
	n.plan(func(s *Stale) { s.All = true })
	before := n.Frontends()
	if n.plan(func(s *Stale) { s.All = true }) || &n.Frontends()[0] != &before[0] {
		t.Error("a plan of the same rows changed something")
	}
}

func TestPlanner_ChangedSurroundings_ConcernedServicesPlanned(t *testing.T) {
	n := newNode(t)
	n.judge("web", 2001, 8001)
	n.plan(func(s *Stale) { s.All = true })
	n.here.Reached = nil
	n.plan(func(s *Stale) { s.Here = true })
	if virtual, outside := n.backends(); !slices.Equal(virtual, []uint16{8001}) || outside != nil {
		t.Errorf("without the pod here the ports are %v inside and %v outside", virtual, outside)
	}
	n.here.Numbers = nil
	n.plan(func(s *Stale) { s.Here = true })
	if len(n.ByVNI()) > 0 {
		t.Errorf("without the VPC here there are virtual addresses: %v", n.ByVNI())
	}
}

func TestParseRef_Texts_NamespaceAndNameRead(t *testing.T) {
	if ref, err := ParseRef("default/kubernetes"); err != nil || ref.String() != "default/kubernetes" {
		t.Errorf("got %v, %v", ref, err)
	}
	for _, text := range []string{"", "kubernetes", "/kubernetes", "default/", "a/b/c"} {
		if ref, err := ParseRef(text); err == nil {
			t.Errorf("%q is read as %v", text, ref)
		}
	}
}
