// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// ofVNI returns the interfaces of a VNI on the node, with its ranges.
func ofVNI(s state.State, vni uint32) (ifindexes []int, ranges []state.VPC) {
	for _, row := range s.Interfaces {
		if row.VNI == vni {
			ifindexes = append(ifindexes, row.Ifindex)
		}
	}
	for _, row := range s.VPCs {
		if row.VNI == vni {
			ranges = append(ranges, row)
		}
	}
	return ifindexes, ranges
}

func gone(name string) func(store.Tx) error {
	return func(tx store.Tx) error { store.DeleteVPC(tx, name, name); return nil }
}

// released deletes the Address of b1.
func released(tx store.Tx) error {
	store.DeleteAddress(tx, "blue.10.10.1.10", "blue10.10.1.10")
	return nil
}

// inAnyOrder builds with the records in both orders, which must not differ.
func (w *world) inAnyOrder(t *testing.T) whole {
	t.Helper()
	got := w.build()
	slices.Reverse(w.records)
	if diff := cmp.Diff(got, w.build(), byValue); diff != "" {
		t.Errorf("the order of records makes a difference (-in order +reversed):\n%s", diff)
	}
	return got
}

// TestPlanVNI_JournalAndAPIDisagree_APIWins is about the pod b1 of VPC blue with
// VNI 20, whose device has index 101.
func TestPlanVNI_JournalAndAPIDisagree_APIWins(t *testing.T) {
	cases := map[string]struct {
		rows   []func(store.Tx) error
		attach func(*world)
		// inVNI are the devices in VNI 20, lost is why b1 is left out.
		inVNI []int
		lost  string
	}{
		"they agree": {inVNI: []int{101}},
		"the Address is missing, and the pod was told it": {
			rows:  []func(store.Tx) error{released, tell("b1", "blue", "10.10.1.10/24")},
			inVNI: []int{101},
		},
		"the Address is missing, and the pod was told nothing": {
			rows: []func(store.Tx) error{released, podWithHooks("b1")},
			lost: "no Address object holds 10.10.1.10 of VPC blue for it",
		},
		"the Address is missing, and the pod was told another": {
			rows: []func(store.Tx) error{released, tell("b1", "blue", "10.10.1.12/24")},
			lost: "no Address object holds 10.10.1.10 of VPC blue for it",
		},
		"the Address and the pod are missing": {
			rows: []func(store.Tx) error{released, gonePod("b1")},
			lost: "no Address object holds 10.10.1.10 of VPC blue for it",
		},
		"somebody else has the address": {
			rows: []func(store.Tx) error{
				released, address("blue", "10.10.1.10", "node2", store.HolderPod, "b7"),
			},
			lost: "10.10.1.10 of VPC blue belongs to pod blue/b7 now",
		},
		"a successor here has the address": {
			rows: []func(store.Tx) error{
				released, address("blue", "10.10.1.10", "node1", store.HolderPod, "b7"),
			},
			attach: func(w *world) { w.attach("blue", 20, "b7", "10.10.1.10/24") },
			inVNI:  []int{103},
			lost:   "10.10.1.10 of VPC blue belongs to pod blue/b7 now",
		},
		"the VPC is gone": {rows: []func(store.Tx) error{gone("blue")}, lost: "VPC blue does not exist any more"},
		"the VPC was made anew": {
			rows: []func(store.Tx) error{gone("blue"), vpc("blue", 21, "10.10.0.0/16")},
			lost: "VPC blue has the VNI 21 now, and the pod was attached with 20",
		},
		"another VPC has the VNI": {
			rows:   []func(store.Tx) error{gone("blue"), vpc("green", 20, "10.20.0.0/16")},
			attach: func(w *world) { w.attach("green", 20, "g1", "10.20.0.10/24") },
			inVNI:  []int{103},
			lost:   "VPC blue does not exist any more",
		},
		"the default VPC has the VNI": {
			rows:  []func(store.Tx) error{gone("default"), gone("blue"), vpc("default", 20, "10.244.0.0/16")},
			inVNI: []int{7},
			lost:  "VPC blue does not exist any more",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := tenants(t)
			w.put(t, podWithHooks("b1"))
			w.put(t, c.rows...)
			if c.attach != nil {
				c.attach(w)
			}
			got := w.inAnyOrder(t)
			if have, _ := ofVNI(got.Datapath, 20); !cmp.Equal(c.inVNI, have) {
				t.Errorf("interfaces %v in the VNI, want %v", have, c.inVNI)
			}
			var lost string
			for _, l := range got.Lost {
				lost += l.Record.Pod.Name + ": " + l.Reason
			}
			if c.lost != "" && lost != "b1: "+c.lost || c.lost == "" && lost != "" {
				t.Errorf("lost %q, want b1: %q", lost, c.lost)
			}
			if c.lost != "" {
				expectNothingOf(t, got, 101, ip("169.254.64.2"))
			}
		})
	}
}

func gonePod(uid string) func(store.Tx) error {
	return func(tx store.Tx) error {
		store.DeletePod(tx, uid)
		return nil
	}
}

// TestPlan_RemoteAddressNamesLocalPod_LeadsNowhere: no other node can tell.
func TestPlan_RemoteAddressNamesLocalPod_LeadsNowhere(t *testing.T) {
	w := tenants(t)
	intruder := func(tx store.Tx) error {
		row := *store.GetAddress(tx, "blue.10.10.1.11")
		row.UID, row.Name, row.IP = "intruder", "blue.10.10.1.66", ip("10.10.1.66")
		row.Holder = store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "b1", UID: "b1"}
		return store.PutAddress(tx, &row)
	}
	w.put(t, podWithHooks("b1"), intruder)
	leads := map[netip.Addr]bool{}
	for _, row := range w.inAnyOrder(t).Datapath.Addresses {
		leads[row.IP] = leads[row.IP] || row.VNI == 20
	}
	if leads[ip("10.10.1.66")] || !leads[ip("10.10.1.11")] {
		t.Errorf("addresses of VNI 20: %v", leads)
	}
}

// expectNothingOf fails the test if anything leads to a device or its shadow.
func expectNothingOf(t *testing.T, got whole, ifindex int, shadow netip.Addr) {
	t.Helper()
	for _, row := range got.Datapath.Addresses {
		if row.Ifindex == ifindex {
			t.Errorf("an address leads to it: %+v", row)
		}
	}
	for _, row := range got.Datapath.Probes {
		if row.Shadow == shadow {
			t.Errorf("it is probed: %+v", row)
		}
	}
	for _, row := range got.Devices.Pods {
		if row.Ifindex == ifindex {
			t.Errorf("its device is set up: %+v", row)
		}
	}
}
