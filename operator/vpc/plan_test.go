// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpc

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

func rules() Rules {
	return Rules{DefaultVPC: "default", Reserved: []ReservedRange{
		{Prefix: operatortest.Prefixes("10.96.0.0/16")[0], What: "the cluster's service range"},
		{Prefix: operatortest.Prefixes("fd41:6c69:6f74:6801::/64")[0], What: "the range of shadow addresses"},
	}}
}

func claimOf(vpc *store.VPC, vni uint32) *store.VNIClaim {
	return &store.VNIClaim{Meta: operatortest.Meta("uid-claim-"+vpc.Name, 0), VNI: vni, VPC: vpc.Name, VPCUID: vpc.UID}
}

func unclaimed(name string, want uint32, cidrs ...string) *store.VPC {
	vpc := operatortest.VPC(name, 0, nil, cidrs...)
	vpc.Ready, vpc.WantVNI = false, want
	return vpc
}

// holding returns a node that reports a VNI.
func holding(vni uint32) []any {
	return []any{
		&store.Node{Meta: operatortest.Meta("n1", 0), Name: "node-1", Ready: true},
		&store.RollCall{Meta: operatortest.Meta("r1", 0), Name: "node.node-1", Call: "c", VNIs: []uint32{vni}, NodeUID: "n1"},
	}
}

func TestDecide_VPC_OneVNIAndRangesChecked(t *testing.T) {
	fresh, wants := unclaimed("blue", 0, "10.0.0.0/8"), unclaimed("blue", 7, "10.0.0.0/16")
	red := operatortest.VPC("red", 7, nil, "10.0.0.0/16")
	numbered := operatortest.VPC("blue", 9, nil, "10.0.0.0/16")
	deflt := operatortest.VPC("default", 5, nil, "192.168.0.0/16")
	node := &store.Node{Meta: operatortest.Meta("n", 0), Name: "node-1", AllAddresses: operatortest.Addrs("192.168.77.1")}
	wide := operatortest.VPC("default", 5, nil, "10.0.0.0/16", "192.168.0.0/16")
	unready := operatortest.Subnet("s", "default", "s", 0, "192.168.77.0/24")
	unready.Ready = false
	for _, tc := range []struct {
		name   string
		vpc    *store.VPC
		taken  []uint32
		rows   []any
		claim  uint32
		vni    uint32
		reason string
		text   string
	}{
		{name: "the first free VNI", vpc: fresh, claim: 1, reason: v1alpha1.VNIPendingReason},
		{name: "not one that turned out to be taken", vpc: fresh, taken: []uint32{1, 2}, claim: 3, reason: v1alpha1.VNIPendingReason},
		{name: "the one asked for", vpc: wants, claim: 7, reason: v1alpha1.VNIPendingReason},
		{name: "the one asked for is another's", vpc: wants, rows: []any{red, claimOf(red, 7)}, reason: v1alpha1.VNITakenReason, text: `VPC "red"`},
		{name: "the one asked for turned out to be taken", vpc: wants, taken: []uint32{7}, reason: v1alpha1.VNITakenReason},
		{name: "one that another VPC has without a claim", vpc: wants, rows: []any{red}, reason: v1alpha1.VNITakenReason, text: `VPC "red"`},
		{name: "a lost claim is claimed again as it was", vpc: numbered, claim: 9, reason: v1alpha1.VNIPendingReason},
		{name: "a claim made before a crash is adopted", vpc: wants, rows: []any{claimOf(wants, 7)}, vni: 7, reason: v1alpha1.ReadyReason},
		{
			name: "a claim of an earlier VPC of the name is not ours", vpc: wants,
			rows:   []any{&store.VNIClaim{VNI: 7, VPC: "blue", VPCUID: "an earlier one"}},
			reason: v1alpha1.VNITakenReason, text: "VNI 7 of a deleted VPC is reserved",
		},
		{
			name: "one that a node still holds rests without a claim", vpc: wants, rows: holding(7),
			reason: v1alpha1.VNITakenReason, text: "(missing: node-1)",
		},
		{name: "one that nodes hold is not chosen", vpc: fresh, rows: holding(7), claim: 8, reason: v1alpha1.VNIPendingReason},
		{name: "a lost claim is claimed again though nodes hold it", vpc: numbered, rows: holding(9), claim: 9, reason: v1alpha1.VNIPendingReason},
		{
			name: "a range that covers the service range", vpc: fresh, rows: []any{claimOf(fresh, 3)}, vni: 3,
			reason: v1alpha1.RangeReservedReason, text: "10.0.0.0/8 overlaps the cluster's service range (10.96.0.0/16)",
		},
		{
			name: "a range of a service range that was added", vpc: numbered, rows: []any{
				claimOf(numbered, 9), &store.ServiceCIDR{Name: "more", Prefixes: operatortest.Prefixes("fd97::/112", "10.0.7.0/24")},
			}, vni: 9,
			reason: v1alpha1.RangeReservedReason, text: `overlaps the service range of ServiceCIDR "more" (10.0.7.0/24)`,
		},
		{
			name: "the default VPC must not contain a node", vpc: deflt, rows: []any{claimOf(deflt, 5), node}, vni: 5,
			reason: v1alpha1.RangeReservedReason, text: "192.168.77.1 of node node-1",
		},
		{
			name: "a node does not end a default VPC that serves pods", vpc: deflt, rows: []any{
				claimOf(deflt, 5), node, operatortest.Subnet("s", "default", "s", 0, "192.168.77.0/24"),
			}, vni: 5, reason: v1alpha1.ReadyReason,
		},
		{
			name: "nor one that has lost its status", vpc: deflt, rows: []any{
				claimOf(deflt, 5), node, unready, operatortest.Address("default", "s", "192.168.77.9", &store.Pod{}),
			}, vni: 5, reason: v1alpha1.ReadyReason,
		},
		{
			name: "a second range that serves nobody must not contain one", vpc: wide, rows: []any{
				claimOf(wide, 5), node, operatortest.Subnet("s", "default", "s", 0, "10.0.0.0/24"),
			}, vni: 5, reason: v1alpha1.RangeReservedReason, text: "192.168.0.0/16 of the default VPC contains the address 192.168.77.1 of node node-1",
		},
		{
			name: "another VPC may", vpc: numbered, rows: []any{claimOf(numbered, 9), &store.Node{Name: "n", AllAddresses: operatortest.Addrs("10.0.0.1")}}, vni: 9,
			reason: v1alpha1.ReadyReason,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, append(tc.rows, tc.vpc)...).View(func(tx store.ReadTx) {
				d := decide(tx, tc.vpc, rules(), tc.taken)
				if d.claim != tc.claim || d.vni != tc.vni || d.Reason != tc.reason || !strings.Contains(d.Message, tc.text) {
					t.Errorf("claim %d, VNI %d, %s: %s; want claim %d, VNI %d, %s with %q",
						d.claim, d.vni, d.Reason, d.Message, tc.claim, tc.vni, tc.reason, tc.text)
				}
				if d.IsReady() != (tc.reason == v1alpha1.ReadyReason) || len(d.release) > 0 || d.empty {
					t.Errorf("ready %v, release %v, unclaimed %v", d.IsReady(), d.release, d.empty)
				}
			})
		})
	}
}

func TestDecide_ClaimInStatus_Kept(t *testing.T) {
	vpc := operatortest.VPC("blue", 9, nil, "10.0.0.0/16")
	vpc.WantVNI = 4
	s := operatortest.New(t, vpc, claimOf(vpc, 3), claimOf(vpc, 4), claimOf(vpc, 9))
	s.View(func(tx store.ReadTx) {
		d := decide(tx, vpc, rules(), nil)
		if d.vni != 9 || len(d.release) != 2 || d.release[0].VNI != 4 || d.release[1].VNI != 3 {
			t.Errorf("VNI %d, release %v; want 9, and 4 and 3 released", d.vni, d.release)
		}
	})
}

func TestDecide_VPCNotEmpty_NotDeleted(t *testing.T) {
	vpc := operatortest.VPC("blue", 9, nil, "10.0.0.0/16")
	vpc.Deleting = true
	subnet := operatortest.Subnet("s", "blue", "s", 0, "10.0.0.0/24")
	pod := operatortest.Pod("blue", "a", "p", "", "")
	held := operatortest.New(t, vpc, claimOf(vpc, 9), subnet, operatortest.Address("blue", "s", "10.0.0.5", pod))
	held.View(func(tx store.ReadTx) {
		d := decide(tx, vpc, rules(), nil)
		if d.empty || len(d.release) > 0 || d.vni != 9 || d.subnets != 1 || d.addresses != 1 ||
			d.Reason != v1alpha1.DeletingReason || !strings.Contains(d.Message, "1 subnet(s): s;") {
			t.Errorf("held VPC: %+v", d)
		}
	})
	unhoused := operatortest.New(t, vpc, claimOf(vpc, 9), operatortest.Address("blue", "gone", "10.0.0.5", pod))
	unhoused.View(func(tx store.ReadTx) {
		d := decide(tx, vpc, rules(), nil)
		if d.empty || len(d.release) > 0 || d.addresses != 1 || !strings.Contains(d.Message, "1 address(es): 10.0.0.5 by ") || !strings.HasSuffix(d.Message, " a/p") {
			t.Errorf("VPC with an address whose subnet is gone: %+v", d)
		}
	})
	operatortest.New(t, vpc, claimOf(vpc, 9)).View(func(tx store.ReadTx) {
		if d := decide(tx, vpc, rules(), nil); !d.empty || len(d.release) != 0 || d.vni != 9 {
			t.Errorf("empty VPC: %+v, want it let go with its claim left", d)
		}
	})
}
