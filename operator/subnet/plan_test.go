// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subnet

import (
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

// view calls do with a snapshot.
func view(s store.Central, do func(tx store.CentralTx)) {
	s.View(func(tx store.ReadTx) { do(s.Of(tx)) })
}

func TestDecide_Unusable_ReasonGiven(t *testing.T) {
	vpc := operatortest.VPC("v", 1, nil, "10.0.0.0/16", "fd00::/48")
	unready := *vpc
	unready.Ready = false
	pod := operatortest.Pod("blue", "a", "p", "", "")
	mine := operatortest.Subnet("mine", "v", "net1", 5, "10.0.1.0/24", "fd00:0:0:1::/64")
	for _, tc := range []struct {
		name   string
		subnet *store.Subnet
		rows   []any
		reason string
		text   string
	}{
		{name: "nothing", subnet: mine, rows: []any{vpc}, reason: v1alpha1.ReadyReason},
		{name: "no VPC", subnet: mine, reason: v1alpha1.VPCNotFoundReason, text: `VPC "v" does not exist`},
		{name: "a VPC that is not ready", subnet: mine, rows: []any{&unready}, reason: v1alpha1.VPCNotReadyReason},
		{
			name: "a range outside", subnet: operatortest.Subnet("mine", "v", "n", 5, "10.1.0.0/24"), rows: []any{vpc},
			reason: v1alpha1.OutsideVPCReason, text: "10.1.0.0/24 is in none",
		},
		{
			name: "a range larger than the VPC's", subnet: operatortest.Subnet("mine", "v", "n", 5, "10.0.0.0/15"), rows: []any{vpc},
			reason: v1alpha1.OutsideVPCReason,
		},
		{
			name: "an older one in the way", subnet: mine, rows: []any{vpc, operatortest.Subnet("old", "v", "net2", 4, "10.0.0.0/20")},
			reason: v1alpha1.OverlapReason, text: `10.0.1.0/24 overlaps 10.0.0.0/20 of subnet "old"`,
		},
		{
			name: "a younger one is no matter", subnet: mine, rows: []any{vpc, operatortest.Subnet("young", "v", "net1", 6, "10.0.0.0/20")},
			reason: v1alpha1.ReadyReason,
		},
		{
			name: "of two of one age the lower name wins", subnet: mine, rows: []any{vpc, operatortest.Subnet("aaa", "v", "net2", 5, "10.0.0.0/20")},
			reason: v1alpha1.OverlapReason,
		},
		{
			name: "an older one of the same range in another VPC", subnet: mine, rows: []any{vpc, operatortest.Subnet("old", "w", "net1", 4, "10.0.1.0/24")},
			reason: v1alpha1.ReadyReason,
		},
		{
			name: "an older one of the same name", subnet: mine, rows: []any{vpc, operatortest.Subnet("old", "v", "net1", 4, "10.0.2.0/24")},
			reason: v1alpha1.NameConflictReason, text: `has the name "net1"`,
		},
		{
			name: "a held address that was cut off", subnet: mine, rows: []any{vpc, operatortest.Address("v", "mine", "10.0.9.9", pod)},
			reason: v1alpha1.CutsOffReason, text: "10.0.9.9 is held by Pod a/p",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			view(operatortest.Central(t, append(tc.rows, tc.subnet)...), func(tx store.CentralTx) {
				d := decide(tx, tc.subnet)
				if d.Reason != tc.reason || !strings.Contains(d.Message, tc.text) || d.IsReady() != (tc.reason == v1alpha1.ReadyReason) {
					t.Errorf("ready %v, %s: %s; want %s with %q", d.IsReady(), d.Reason, d.Message, tc.reason, tc.text)
				}
			})
		})
	}
}

func TestDecide_AddressesHeld_CountsAndCursors(t *testing.T) {
	subnet := operatortest.Subnet("s", "v", "s", 0, "10.0.1.0/24", "fd00::/64")
	pod := operatortest.Pod("blue", "a", "p", "", "")
	s := operatortest.Central(t, operatortest.VPC("v", 1, nil, "10.0.0.0/16", "fd00::/48"), subnet,
		operatortest.Address("v", "s", "10.0.1.2", pod, "fd00::2"), operatortest.Address("v", "s", "fd00::2", pod, "10.0.1.2"))
	err := s.Update(func(tx store.Tx) error { return store.SetCursor(tx, "s", operatortest.Addrs("10.0.1.2")[0]) })
	if err != nil {
		t.Fatal(err)
	}
	view(s, func(tx store.CentralTx) {
		d := decide(tx, subnet)
		// 256 without network, gateway, broadcast and the held one.
		if d.used != 2 || d.free != 252 || !slices.Equal(d.cursors, []string{"10.0.1.2"}) {
			t.Errorf("used %d, free %d, cursors %v; want 2, 252, [10.0.1.2]", d.used, d.free, d.cursors)
		}
	})
}

func TestDecide_AddressHeld_NotDeleted(t *testing.T) {
	subnet := operatortest.Subnet("s", "v", "s", 0, "10.0.1.0/24")
	subnet.Deleting = true
	rows := []any{operatortest.VPC("v", 1, nil, "10.0.0.0/16"), subnet}
	view(operatortest.Central(t, rows...), func(tx store.CentralTx) {
		if d := decide(tx, subnet); !d.empty || d.Reason != v1alpha1.DeletingReason {
			t.Errorf("empty %v, %s; want it to go", d.empty, d.Reason)
		}
	})
	for _, ip := range []string{"10.0.1.5", "10.0.1.6", "10.0.1.7", "10.0.1.8"} {
		rows = append(rows, operatortest.Address("v", "s", ip, operatortest.Pod("blue", "a", "p"+ip[7:], "", "")))
	}
	view(operatortest.Central(t, rows...), func(tx store.CentralTx) {
		d := decide(tx, subnet)
		want := "held by 4 address(es): 10.0.1.5 by Pod a/p5, 10.0.1.6 by Pod a/p6, 10.0.1.7 by Pod a/p7, and others"
		if d.empty || d.Message != want {
			t.Errorf("empty %v, message %q; want %q", d.empty, d.Message, want)
		}
	})
}

// TestDecide_RowContradictory_LastSoundRowKept: neither while a subnet is deleted that was sound before.
func TestDecide_RowContradictory_LastSoundRowKept(t *testing.T) {
	rows := operatortest.Central(t, operatortest.VPC("v", 1, nil, "10.0.0.0/16"), operatortest.Subnet("mine", "v", "net1", 5, "10.0.1.0/24"))
	r := &Reconciler{Store: rows}
	wrong := *operatortest.Subnet("mine", "v", "net1", 5, "10.0.1.0/24")
	wrong.Deleting, wrong.Gateways = true, nil
	if wrong.Check() == nil {
		t.Fatal("a subnet without a gateway is sound")
	}
	if d, known, err := r.decide(&wrong); err != nil || !known || !d.empty {
		t.Errorf("known %v, empty %v, error %v; nothing holds it", known, d.empty, err)
	}
	rows.View(func(tx store.ReadTx) {
		held := store.GetSubnet(tx, "mine")
		if err := held.Check(); err != nil || !held.Deleting {
			t.Errorf("in the store: %v, deleting %v; want the last sound row, marked", err, held.Deleting)
		}
	})
}
