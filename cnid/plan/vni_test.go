// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
)

// ofVNI says who is on the node in a VNI, and with which ranges.
func ofVNI(s datapath.State, vni uint32) (ifindexes []int, ranges []datapath.VPC) {
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

// inAnyOrder builds with the records in both orders, which must not differ.
func (w *world) inAnyOrder(t *testing.T) Wanted {
	t.Helper()
	got := w.build()
	slices.Reverse(w.records)
	if diff := cmp.Diff(got, w.build(), byValue); diff != "" {
		t.Errorf("the order of records makes a difference (-in order +reversed):\n%s", diff)
	}
	return got
}

func TestTwoGenerationsOfAVPCLiveApartOnANode(t *testing.T) {
	w := tenants(t)
	w.put(t, gone("blue"), vpc("blue", 21, "10.10.0.0/16"))
	w.attach("blue", 21, "b9", "10.10.1.10/24")
	got := w.inAnyOrder(t)
	old, oldRanges := ofVNI(got.Datapath, 20)
	if len(old) != 1 || old[0] != 101 || !cmp.Equal(oldRanges, []datapath.VPC{{VNI: 20, Prefixes: prefixes("10.10.1.0/24")}}, byValue) {
		t.Errorf("the earlier one: interfaces %v in %v", old, oldRanges)
	}
	now, nowRanges := ofVNI(got.Datapath, 21)
	if len(now) != 1 || now[0] != 103 || !cmp.Equal(nowRanges, []datapath.VPC{{VNI: 21, Prefixes: prefixes("10.10.0.0/16")}}, byValue) {
		t.Errorf("the later one: interfaces %v in %v", now, nowRanges)
	}
}

func TestOfTwoVPCsWithOneVNITheLivingOneHasIt(t *testing.T) {
	cases := map[string]struct {
		rows    []func(store.Tx) error
		attach  func(*world)
		want    []int
		ranges  []datapath.VPC
		refused []int
	}{
		"another name has the VNI now": {
			[]func(store.Tx) error{gone("blue"), vpc("green", 20, "10.20.0.0/16")},
			func(w *world) { w.attach("green", 20, "g1", "10.20.0.10/24") },
			[]int{103},
			[]datapath.VPC{{VNI: 20, Prefixes: prefixes("10.20.0.0/16")}},
			[]int{101},
		},
		"without a pod of it here": {
			[]func(store.Tx) error{gone("blue"), vpc("green", 20, "10.20.0.0/16")},
			func(*world) {}, nil, nil,
			[]int{101},
		},
		"both are gone, so the later attachment's": {
			[]func(store.Tx) error{gone("blue")},
			func(w *world) { w.attach("green", 20, "g1", "10.20.0.10/24") },
			[]int{103},
			[]datapath.VPC{{VNI: 20, Prefixes: prefixes("10.20.0.0/24")}},
			[]int{101},
		},
		"the default VPC has it": {
			[]func(store.Tx) error{gone("default"), gone("blue"), vpc("default", 20, "10.244.0.0/16")},
			func(*world) {},
			[]int{7},
			[]datapath.VPC{{VNI: 20, Prefixes: prefixes("10.244.0.0/16"), EgressMasquerade: true, Default: true}},
			[]int{101},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := tenants(t)
			w.put(t, c.rows...)
			w.put(t, pod("b1", true, 8080))
			c.attach(w)
			got := w.inAnyOrder(t)
			if have, ranges := ofVNI(got.Datapath, 20); !cmp.Equal(c.want, have) || !cmp.Equal(c.ranges, ranges, byValue) {
				t.Errorf("interfaces %v in %v, want %v in %v", have, ranges, c.want, c.ranges)
			}
			for _, row := range got.Datapath.Addresses {
				if row.VNI == 20 && row.IP == ip("10.10.1.10") {
					t.Errorf("an address of the other: %+v", row)
				}
			}
			if len(got.Datapath.Probes) != 0 || len(got.Devices.Pods) != len(w.records)-1 {
				t.Errorf("probes %v, devices %v", got.Datapath.Probes, got.Devices.Pods)
			}
			if !cmp.Equal(c.refused, got.Refused) {
				t.Errorf("refused %v, want %v", got.Refused, c.refused)
			}
		})
	}
}
