// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
)

var (
	epoch    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	equalIPs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

func TestChoose_Request_SubnetAndAddressesMatch(t *testing.T) {
	fullNet := subnet(1, "full", "10.0.9.0/29")
	fullNet.Reserved = []store.AddrRange{{First: netip.MustParseAddr("10.0.9.2"), Last: netip.MustParseAddr("10.0.9.6")}}
	cursor := subnet(1, "net1", "10.0.1.0/24")
	cursor.Cursors = ips("10.0.1.9")
	strange := subnet(1, "net1", "10.0.1.0/24")
	strange.Cursors = ips("192.0.2.1")
	atEnd := subnet(1, "net1", "10.0.1.0/29")
	atEnd.Cursors = ips("10.0.1.6")
	custom := subnet(1, "net1", "10.0.1.0/24")
	custom.Gateways = ips("10.0.1.2")
	short := subnet(2, "object", "10.0.2.0/24")
	short.ShortName = "net1"

	tests := map[string]struct {
		rows       []any
		req        ipam.Request
		wantSubnet string
		want       []netip.Addr
	}{
		"nothing asked: first free address behind the gateway": {
			rows: []any{subnet(1, "net1", "10.0.1.0/24")}, wantSubnet: "net1", want: ips("10.0.1.2"),
		},
		"dual stack: one of each family, IPv4 first": {
			rows: []any{subnet(1, "net1", "fd00::/64", "10.0.1.0/24")}, wantSubnet: "net1", want: ips("10.0.1.2", "fd00::2"),
		},
		"the older subnet serves first": {
			rows: []any{subnet(2, "a", "10.0.1.0/24"), subnet(1, "b", "10.0.2.0/24")}, wantSubnet: "b", want: ips("10.0.2.2"),
		},
		"a full subnet is passed over": {
			rows: []any{fullNet, subnet(2, "net2", "10.0.2.0/24")}, wantSubnet: "net2", want: ips("10.0.2.2"),
		},
		"a subnet that is full in one family is passed over": {
			rows: []any{func() *store.Subnet {
				row := subnet(1, "net1", "10.0.1.0/24", "fd00::/120")
				row.Reserved = []store.AddrRange{{First: netip.MustParseAddr("fd00::"), Last: netip.MustParseAddr("fd00::ff")}}
				return row
			}(), subnet(2, "net2", "10.0.2.0/24", "fd00:2::/64")},
			wantSubnet: "net2", want: ips("10.0.2.2", "fd00:2::2"),
		},
		"a subnet that isn't Ready is passed over": {
			rows:       []any{notReady(subnet(1, "net1", "10.0.1.0/24"), ""), subnet(2, "net2", "10.0.2.0/24")},
			wantSubnet: "net2", want: ips("10.0.2.2"),
		},
		"of two created in one second the lower name": {
			rows:       []any{withUID(subnet(1, "net2", "10.0.2.0/24"), "a"), withUID(subnet(1, "net1", "10.0.1.0/24"), "z")},
			wantSubnet: "net1", want: ips("10.0.1.2"),
		},
		"a younger subnet without a verdict doesn't matter": {
			rows:       []any{subnet(1, "net1", "10.0.1.0/24"), unexamined(subnet(1, "net2", "10.0.2.0/24"))},
			wantSubnet: "net1", want: ips("10.0.1.2"),
		},
		"held addresses are passed over": {
			rows:       []any{subnet(1, "net1", "10.0.1.0/24"), held("blue", "net1", "10.0.1.2", "n1"), held("blue", "net1", "10.0.1.3", "n1")},
			wantSubnet: "net1", want: ips("10.0.1.4"),
		},
		"an address that a vanished subnet has left behind is passed over": {
			rows:       []any{subnet(1, "net1", "10.0.1.0/24"), held("blue", "before", "10.0.1.2", "n1")},
			wantSubnet: "net1", want: ips("10.0.1.3"),
		},
		"another VPC's addresses don't matter": {
			rows:       []any{subnet(1, "net1", "10.0.1.0/24"), held("red", "net1", "10.0.1.2", "n1")},
			req:        ipam.Request{Node: "n2"},
			wantSubnet: "net1", want: ips("10.0.1.2"),
		},
		"an IP that another VPC uses on the node is avoided": {
			rows:       []any{subnet(1, "net1", "10.0.1.0/24"), held("red", "net1", "10.0.1.2", "n1")},
			req:        ipam.Request{Node: "n1"},
			wantSubnet: "net1", want: ips("10.0.1.3"),
		},
		"the search goes on behind the cursor": {
			rows: []any{cursor}, wantSubnet: "net1", want: ips("10.0.1.10"),
		},
		"a cursor outside the range is ignored": {
			rows: []any{strange}, wantSubnet: "net1", want: ips("10.0.1.2"),
		},
		"the ring closes at the end": {
			rows: []any{atEnd, held("blue", "net1", "10.0.1.2", "n1")}, wantSubnet: "net1", want: ips("10.0.1.3"),
		},
		"a gateway of its own is passed over, and the first address is free": {
			rows: []any{custom}, wantSubnet: "net1", want: ips("10.0.1.1"),
		},
		"addresses found taken are passed over": {
			rows:       []any{subnet(1, "net1", "10.0.1.0/24")},
			req:        ipam.Request{Exclude: map[netip.Addr]struct{}{netip.MustParseAddr("10.0.1.2"): {}}},
			wantSubnet: "net1", want: ips("10.0.1.3"),
		},
		"subnet asked for by spec.name": {
			rows:       []any{subnet(1, "other", "10.0.1.0/24"), short},
			req:        ipam.Request{Subnet: "net1"},
			wantSubnet: "object", want: ips("10.0.2.2"),
		},
		"subnet asked for by object name": {
			rows:       []any{subnet(1, "other", "10.0.1.0/24"), short},
			req:        ipam.Request{Subnet: "object"},
			wantSubnet: "object", want: ips("10.0.2.2"),
		},
		"spec.name counts before the object's name": {
			rows:       []any{func() *store.Subnet { row := subnet(1, "net1", "10.0.1.0/24"); row.ShortName = "x"; return row }(), short},
			req:        ipam.Request{Subnet: "net1"},
			wantSubnet: "object", want: ips("10.0.2.2"),
		},
		"IP asked for: its subnet, other families chosen": {
			rows:       []any{subnet(1, "net1", "10.0.1.0/24"), subnet(2, "net2", "10.0.2.0/24", "fd00:2::/64")},
			req:        ipam.Request{IPs: ips("10.0.2.77")},
			wantSubnet: "net2", want: ips("10.0.2.77", "fd00:2::2"),
		},
		"IPs of both families asked for": {
			rows:       []any{subnet(1, "net1", "10.0.1.0/24", "fd00::/64")},
			req:        ipam.Request{IPs: ips("fd00::77", "10.0.1.77"), Subnet: "net1"},
			wantSubnet: "net1", want: ips("10.0.1.77", "fd00::77"),
		},
		"an IP asked for may be in use on the node in another VPC": {
			rows:       []any{subnet(1, "net1", "10.0.1.0/24"), held("red", "net1", "10.0.1.2", "n1")},
			req:        ipam.Request{IPs: ips("10.0.1.2"), Node: "n1"},
			wantSubnet: "net1", want: ips("10.0.1.2"),
		},
		"an IP that the same attachment holds already is kept": {
			rows:       []any{subnet(1, "net1", "10.0.1.0/24"), held("blue", "net1", "10.0.1.2", "n1")},
			req:        ipam.Request{IPs: ips("10.0.1.2"), Node: "n1", Holder: held("blue", "net1", "10.0.1.2", "n1").Holder},
			wantSubnet: "net1", want: ips("10.0.1.2"),
		},
		"of overlapping subnets the Ready one gives the IP": {
			rows:       []any{notReady(subnet(1, "a", "10.0.1.0/24"), ""), subnet(2, "b", "10.0.1.0/24")},
			req:        ipam.Request{IPs: ips("10.0.1.5")},
			wantSubnet: "b", want: ips("10.0.1.5"),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := choose(newStore(t, test.rows...), test.req)
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if got.Subnet.Name != test.wantSubnet {
				t.Errorf("subnet %s, want %s", got.Subnet.Name, test.wantSubnet)
			}
			if diff := cmp.Diff(test.want, got.IPs, equalIPs); diff != "" {
				t.Errorf("IPs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChoose_Impossible_ReasonAndRemedy(t *testing.T) {
	reserved := subnet(1, "net1", "10.0.1.0/24", "fd00::/64")
	reserved.Reserved = []store.AddrRange{{First: netip.MustParseAddr("10.0.1.10"), Last: netip.MustParseAddr("10.0.1.20")}}
	full := func(age int, name, cidr, first, last string) *store.Subnet {
		row := subnet(age, name, cidr)
		row.Reserved = []store.AddrRange{{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}}
		return row
	}
	pod := func(change func(*store.Pod)) *store.Pod {
		row := &store.Pod{Meta: store.Meta{UID: "holder"}, Namespace: "shop", Name: "holder", OwnerUID: "deployment"}
		change(row)
		return row
	}
	taken := []any{subnet(1, "net1", "10.0.1.0/24"), held("blue", "net1", "10.0.1.5", "n1")}
	ofNode := held("blue", "net1", "10.0.1.5", "n1")
	ofNode.Holder = store.Holder{Kind: store.HolderNode, Name: "n1", UID: "n1"}

	tests := map[string]struct {
		rows       []any
		req        ipam.Request
		wantReason string
		wantRetry  ipam.Retry
		wantWords  string
	}{
		"VPC unknown": {
			req: ipam.Request{VPC: "green"}, wantReason: v1alpha1.NetworkNotReadyReason, wantWords: `"green"`,
		},
		"VPC without subnets": {
			wantReason: v1alpha1.SubnetNotFoundReason, wantWords: "create one",
		},
		"subnet unknown": {
			rows: []any{subnet(1, "net1", "10.0.1.0/24")}, req: ipam.Request{Subnet: "net2"},
			wantReason: v1alpha1.SubnetNotFoundReason, wantWords: "net1 (10.0.1.0/24)",
		},
		"subnet of another VPC": {
			rows: []any{func() *store.Subnet { row := subnet(1, "net1", "10.0.1.0/24"); row.VPC = "red"; return row }()},
			req:  ipam.Request{Subnet: "net1"}, wantReason: v1alpha1.SubnetNotFoundReason, wantWords: "it has none",
		},
		"the first subnet is without a verdict": {
			rows:       []any{unexamined(subnet(1, "net1", "10.0.1.0/24")), subnet(1, "net2", "10.0.2.0/24")},
			wantReason: v1alpha1.SubnetNotReadyReason, wantRetry: ipam.WhenSubnetsChange, wantWords: `subnet net1 of VPC "blue" is not Ready yet`,
		},
		"the first subnet was examined before its VPC was Ready": {
			rows:       []any{examinedEarly(subnet(1, "net1", "10.0.1.0/24")), subnet(1, "net2", "10.0.2.0/24")},
			wantReason: v1alpha1.SubnetNotReadyReason, wantRetry: ipam.WhenSubnetsChange, wantWords: `subnet net1 of VPC "blue" is not Ready: VPC "blue" is not ready`,
		},
		"subnet asked for isn't Ready": {
			rows: []any{notReady(subnet(1, "net1", "10.0.1.0/24"), "range overlaps net0")}, req: ipam.Request{Subnet: "net1"},
			wantReason: v1alpha1.SubnetNotReadyReason, wantWords: "range overlaps net0",
		},
		"subnet of the IP asked for is being deleted": {
			rows: []any{func() *store.Subnet { row := subnet(1, "net1", "10.0.1.0/24"); row.Deleting = true; return row }()},
			req:  ipam.Request{IPs: ips("10.0.1.5")}, wantReason: v1alpha1.SubnetNotReadyReason, wantWords: "being deleted",
		},
		"no subnet is Ready": {
			rows:       []any{notReady(subnet(1, "a", "10.0.1.0/24"), ""), notReady(subnet(2, "b", "10.0.2.0/24"), "")},
			wantReason: v1alpha1.SubnetNotReadyReason, wantWords: "none of the 2 subnets",
		},
		"IP in no subnet": {
			rows: []any{subnet(1, "net1", "10.0.1.0/24")}, req: ipam.Request{IPs: ips("10.0.2.5")},
			wantReason: v1alpha1.IPOutsideVPCReason, wantWords: "net1 (10.0.1.0/24)",
		},
		"IP of a family that no subnet has": {
			rows: []any{subnet(1, "net1", "10.0.1.0/24")}, req: ipam.Request{IPs: ips("10.0.1.5", "fd00::5")},
			wantReason: v1alpha1.IPOutsideVPCReason, wantWords: "fd00::5",
		},
		"IPs in different subnets": {
			rows: []any{subnet(1, "a", "10.0.1.0/24"), subnet(2, "b", "fd00::/64")}, req: ipam.Request{IPs: ips("10.0.1.5", "fd00::5")},
			wantReason: v1alpha1.IPOutsideSubnetReason, wantWords: "both 10.0.1.5 and fd00::5",
		},
		"IP outside the subnet asked for": {
			rows: []any{subnet(1, "a", "10.0.1.0/24"), subnet(2, "b", "10.0.2.0/24")},
			req:  ipam.Request{Subnet: "a", IPs: ips("10.0.2.5")}, wantReason: v1alpha1.IPOutsideSubnetReason, wantWords: "10.0.2.5",
		},
		"network address": {
			rows: []any{reserved}, req: ipam.Request{IPs: ips("10.0.1.0")}, wantReason: v1alpha1.IPReservedReason, wantWords: "network address",
		},
		"broadcast address": {
			rows: []any{reserved}, req: ipam.Request{IPs: ips("10.0.1.255")}, wantReason: v1alpha1.IPReservedReason, wantWords: "broadcast",
		},
		"subnet-router anycast address": {
			rows: []any{reserved}, req: ipam.Request{IPs: ips("fd00::")}, wantReason: v1alpha1.IPReservedReason, wantWords: "anycast",
		},
		"gateway": {
			rows: []any{reserved}, req: ipam.Request{IPs: ips("fd00::1")}, wantReason: v1alpha1.IPReservedReason, wantWords: "gateway",
		},
		"reserved range": {
			rows: []any{reserved}, req: ipam.Request{IPs: ips("10.0.1.15")}, wantReason: v1alpha1.IPReservedReason, wantWords: "10.0.1.10-10.0.1.20",
		},
		"IP of a live pod": {
			rows: append(taken, pod(func(*store.Pod) {})), req: ipam.Request{IPs: ips("10.0.1.5")},
			wantReason: v1alpha1.IPInUseReason, wantRetry: ipam.WhenReleased, wantWords: "shop/holder",
		},
		"IP of a live pod of the same owner": {
			rows: append(taken, pod(func(*store.Pod) {})), req: ipam.Request{IPs: ips("10.0.1.5"), OwnerUID: "deployment"},
			wantReason: v1alpha1.IPInUseReason, wantRetry: ipam.WhenReleased, wantWords: "Recreate",
		},
		"IP of a pod that is being deleted": {
			rows: append(taken, pod(func(p *store.Pod) { p.Deleting = true })), req: ipam.Request{IPs: ips("10.0.1.5")},
			wantReason: v1alpha1.IPReleasingReason, wantRetry: ipam.WhenReleased, wantWords: "is ending",
		},
		"IP of a pod that has ended": {
			rows: append(taken, pod(func(p *store.Pod) { p.Terminal = true })), req: ipam.Request{IPs: ips("10.0.1.5")},
			wantReason: v1alpha1.IPReleasingReason, wantRetry: ipam.WhenReleased, wantWords: "is ending",
		},
		"IP of a pod that is gone": {
			rows: taken, req: ipam.Request{IPs: ips("10.0.1.5")},
			wantReason: v1alpha1.IPReleasingReason, wantRetry: ipam.WhenReleased, wantWords: "node n1",
		},
		"IP of another attachment of the same pod": {
			rows: append(taken, pod(func(*store.Pod) {})), req: ipam.Request{IPs: ips("10.0.1.5"), Holder: store.Holder{UID: "holder"}, Attachment: "net1"},
			wantReason: v1alpha1.IPInUseReason, wantRetry: ipam.WhenReleased, wantWords: "shop/holder",
		},
		"IP of a node": {
			rows: []any{subnet(1, "net1", "10.0.1.0/24"), ofNode}, req: ipam.Request{IPs: ips("10.0.1.5")},
			wantReason: v1alpha1.IPInUseReason, wantRetry: ipam.WhenReleased, wantWords: "node n1",
		},
		"IP that turned out to be taken": {
			rows:       []any{subnet(1, "net1", "10.0.1.0/24")},
			req:        ipam.Request{IPs: ips("10.0.1.5"), Exclude: map[netip.Addr]struct{}{netip.MustParseAddr("10.0.1.5"): {}}},
			wantReason: v1alpha1.IPInUseReason, wantRetry: ipam.WhenReleased, wantWords: "is in use",
		},
		"subnet asked for is full": {
			rows: []any{full(1, "net1", "10.0.1.0/29", "10.0.1.2", "10.0.1.6"), subnet(2, "net2", "10.0.2.0/24")}, req: ipam.Request{Subnet: "net1"},
			wantReason: v1alpha1.SubnetExhaustedReason, wantRetry: ipam.WhenReleased, wantWords: "net1 (10.0.1.0/29)",
		},
		"all subnets are full": {
			rows:       []any{full(1, "a", "10.0.1.0/29", "10.0.1.2", "10.0.1.6"), full(2, "b", "10.0.2.0/29", "10.0.2.2", "10.0.2.6")},
			wantReason: v1alpha1.SubnetExhaustedReason, wantRetry: ipam.WhenReleased, wantWords: "none of the 2 subnets",
		},
		"the family that wasn't named is full": {
			rows: []any{func() *store.Subnet {
				row := full(1, "net1", "10.0.1.0/24", "fd00::", "fd00::ffff:ffff:ffff:ffff")
				row.Prefixes = append(row.Prefixes, netip.MustParsePrefix("fd00::/64"))
				return row
			}()}, req: ipam.Request{IPs: ips("10.0.1.5")},
			wantReason: v1alpha1.SubnetExhaustedReason, wantRetry: ipam.WhenReleased, wantWords: "net1",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := choose(newStore(t, test.rows...), test.req)
			var refusal *ipam.Error
			if !errors.As(err, &refusal) {
				t.Fatalf("got %v and error %v, want a refusal", got.IPs, err)
			}
			if refusal.Reason != test.wantReason {
				t.Errorf("reason %s, want %s", refusal.Reason, test.wantReason)
			}
			if refusal.Retry != test.wantRetry {
				t.Errorf("retry %d, want %d", refusal.Retry, test.wantRetry)
			}
			if !strings.Contains(refusal.Message, test.wantWords) {
				t.Errorf("message %q doesn't contain %q", refusal.Message, test.wantWords)
			}
		})
	}
}

func TestChoose_RestingAddress_OnlyWithoutOther(t *testing.T) {
	s := newStore(t, subnet(1, "net1", "10.0.1.0/29")) // 10.0.1.2 to .6
	resting := &ipam.Resting{}
	for i, ip := range ips("10.0.1.2", "10.0.1.4", "10.0.1.3") {
		resting.Add("blue", ip, epoch.Add(time.Duration(i)*time.Second))
	}
	req := ipam.Request{Resting: resting, Now: epoch.Add(30 * time.Second)}
	var got []netip.Addr
	for range 5 {
		result, err := choose(s, req)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, result.IPs...)
		update(t, s, func(tx store.Tx) error { return ipam.Assume(tx, result) })
	}
	// Behind .6, the ring goes on at its start with the resting addresses.
	if diff := cmp.Diff(ips("10.0.1.5", "10.0.1.6", "10.0.1.2", "10.0.1.3", "10.0.1.4"), got, equalIPs); diff != "" {
		t.Errorf("addresses in the order of choice (-want +got):\n%s", diff)
	}
}

func TestResting_SixtySeconds_Ends(t *testing.T) {
	var resting ipam.Resting
	ip := netip.MustParseAddr("10.0.1.2")
	resting.Add("blue", ip, epoch)
	resting.Add("blue", ip, epoch.Add(50*time.Second))
	resting.Add("blue", netip.MustParseAddr("10.0.1.3"), epoch.Add(70*time.Second))
	for second, want := range map[int]bool{70: true, 109: true, 110: false} {
		if got := resting.Contains("blue", ip, epoch.Add(time.Duration(second)*time.Second)); got != want {
			t.Errorf("after %d s: resting is %v, want %v", second, got, want)
		}
	}
	if resting.Contains("red", ip, epoch) {
		t.Error("the address of another VPC rests too")
	}
	var none *ipam.Resting
	if none.Contains("blue", ip, epoch) {
		t.Error("nil contains an address")
	}
}

func TestAssumedRows_Choice_DescribeWholeAttachment(t *testing.T) {
	s := newStore(t, subnet(1, "net1", "10.0.1.0/24", "fd00::/64"))
	holder := store.Holder{Kind: store.HolderPod, Namespace: "shop", Name: "web", UID: "u"}
	result, err := choose(s, ipam.Request{Node: "n1", Holder: holder, External: true})
	if err != nil {
		t.Fatal(err)
	}
	update(t, s, func(tx store.Tx) error { return ipam.Assume(tx, result) })
	want := []*store.Address{}
	for _, ip := range ips("10.0.1.2", "fd00::2") {
		want = append(want, &store.Address{
			Name: v1alpha1.AddressName("blue", ip), VPC: "blue", Subnet: "net1", IP: ip, MAC: "02:00:0a:00:01:02",
			Node: "n1", Holder: holder, Attachment: "eth0", External: true, Set: ips("10.0.1.2", "fd00::2"),
		})
	}
	s.View(func(tx store.ReadTx) {
		if diff := cmp.Diff(want, store.AddressesBySubnet(store.Central{Store: s}.Of(tx), "net1"), equalIPs); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	})
	next, err := choose(s, ipam.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ips("10.0.1.3", "fd00::3"), next.IPs, equalIPs); diff != "" {
		t.Errorf("the next choice (-want +got):\n%s", diff)
	}
	if err := s.Update(func(tx store.Tx) error { return ipam.Assume(tx, result) }); err != nil {
		t.Errorf("assuming the holder's own rows again is refused: %v", err)
	}
}

func TestChoose_EnormousRange_Ends(t *testing.T) {
	row := subnet(1, "net1", "fd00::/32")
	row.Reserved = []store.AddrRange{{First: netip.MustParseAddr("fd00::2"), Last: netip.MustParseAddr("fd00:0:7fff::")}}
	s := newStore(t, row)
	result, err := choose(s, ipam.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ips("fd00:0:7fff::1"), result.IPs, equalIPs); diff != "" {
		t.Errorf("IPs (-want +got):\n%s", diff)
	}
}

func TestChoose_PodOrLoadBalancer_OnlyItsSubnets(t *testing.T) {
	balancers := subnet(0, "lb", "10.0.8.0/24")
	balancers.ForServices = true
	service := store.Holder{Kind: store.HolderService, Namespace: "shop", Name: "web", UID: "web"}
	for name, c := range map[string]struct {
		rows   []any
		req    ipam.Request
		ip     string
		reason string
	}{
		"a pod":                        {[]any{balancers, subnet(1, "net1", "10.0.1.0/24")}, ipam.Request{}, "10.0.1.2", ""},
		"a pod without a subnet":       {[]any{balancers}, ipam.Request{}, "", v1alpha1.SubnetNotFoundReason},
		"a pod by name":                {[]any{balancers, subnet(1, "net1", "10.0.1.0/24")}, ipam.Request{Subnet: "lb"}, "", v1alpha1.SubnetUseReason},
		"a pod by IP":                  {[]any{balancers, subnet(1, "net1", "10.0.1.0/24")}, ipam.Request{IPs: ips("10.0.8.9")}, "", v1alpha1.SubnetUseReason},
		"a load balancer":              {[]any{balancers, subnet(1, "net1", "10.0.1.0/24")}, ipam.Request{Holder: service}, "10.0.8.2", ""},
		"a load balancer's IP":         {[]any{balancers, subnet(1, "net1", "10.0.1.0/24")}, ipam.Request{Holder: service, IPs: ips("10.0.8.9")}, "10.0.8.9", ""},
		"a load balancer by a pod's":   {[]any{balancers, subnet(1, "net1", "10.0.1.0/24")}, ipam.Request{Holder: service, IPs: ips("10.0.1.9")}, "", v1alpha1.SubnetUseReason},
		"a load balancer without room": {[]any{subnet(1, "net1", "10.0.1.0/24")}, ipam.Request{Holder: service}, "", v1alpha1.SubnetNotFoundReason},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := choose(newStore(t, c.rows...), c.req)
			var refusal *ipam.Error
			switch {
			case c.reason != "":
				if !errors.As(err, &refusal) || refusal.Reason != c.reason {
					t.Errorf("got %v, want %s", err, c.reason)
				}
			case err != nil:
				t.Error(err)
			case len(result.IPs) != 1 || result.IPs[0] != netip.MustParseAddr(c.ip):
				t.Errorf("got %v, want %s", result.IPs, c.ip)
			}
		})
	}
}
