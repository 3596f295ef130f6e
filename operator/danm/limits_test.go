// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// many are TenantNetworks n0, n1, ... of namespaces by turns, each older than the next.
func many(count int, namespaces ...string) []any {
	var all []any
	for i := range count {
		all = append(all, net(multinet.KindTenantNetwork, namespaces[i%len(namespaces)], fmt.Sprintf("n%d", i), i, nil))
	}
	return all
}

// accepted returns the names of the networks that a limit does not refuse.
func accepted(tx store.ReadTx, limits Limits) string {
	var names []string
	for n := range multinet.Networks(tx) {
		if d := decide(tx, n, nil, limits); d.Reason != v1alpha1.TenantLimitReason {
			names = append(names, n.Namespace+"/"+n.Name)
		}
	}
	return strings.Join(names, " ")
}

// TestNetworkLimit_Tenant_AllNamespacesCounted counts all namespaces and kinds of a tenant together, and none of
// another tenant.
func TestNetworkLimit_Tenant_AllNamespacesCounted(t *testing.T) {
	shop := []any{namespace("a", "shop"), namespace("b", "shop"), namespace("c", "bank"), devices()}
	theirs := net(multinet.KindTenantNetwork, "c", "theirs", 9, nil)
	granted := net(multinet.KindDanmNet, "a", "granted", 8, nil)
	shared := net(multinet.KindClusterNetwork, "", "shared", 8, nil)
	unlabelled := net(multinet.KindDanmNet, "d", "trusted", 8, nil)
	second := net(multinet.KindDanmNet, "d", "trusted2", 9, nil)
	third := net(multinet.KindDanmNet, "d", "trusted3", 9, nil)
	rows := append(append(shop, many(4, "a", "b")...), theirs, granted, shared, unlabelled, second, third)
	operatortest.New(t, rows...).View(func(tx store.ReadTx) {
		got := accepted(tx, Limits{Networks: 2})
		if want := "/shared d/trusted d/trusted2 d/trusted3 a/n0 b/n1 c/theirs"; got != want {
			t.Errorf("accepted are %q, want %q", got, want)
		}
		if d := decide(tx, granted, nil, Limits{Networks: 2}); !strings.Contains(d.Message, "2 networks") || strings.Contains(d.Message, "theirs") {
			t.Errorf("the tenant is told %q", d.Message)
		}
		if got := strings.Fields(accepted(tx, Limits{})); len(got) != 10 {
			t.Errorf("without a limit %q are accepted", got)
		}
	})
}

// TestLimits_WorkingBeforeLimit_KeepsWorking: by each object that only the operator makes.
func TestLimits_WorkingBeforeLimit_KeepsWorking(t *testing.T) {
	older := many(3, "a")
	mine := net(multinet.KindTenantNetwork, "a", "old", 9, func(n *multinet.Network) { n.HostDevice = "ens7" })
	wide := ranged(net(multinet.KindTenantNetwork, "a", "wide", 0, func(n *multinet.Network) { n.HostDevice = "ens7" }), "10.0.0.0/8", "10.0.0.1", "10.0.0.9")
	for name, proof := range map[string]func(*multinet.Network) any{
		"an address": func(n *multinet.Network) any { return address(n, "10.0.0.5", "pod") },
		"a number for nodes": func(n *multinet.Network) any {
			return &multinet.DomainClaim{Meta: operatortest.Meta("uid-domain", 0), Number: v1alpha1.MinDomainNumber, Network: n.Reference()}
		},
		"an attachment": func(n *multinet.Network) any {
			return &multinet.Claim{Meta: operatortest.Meta("uid-claim", 0), Namespace: "a", Name: "claim", PodName: "web", PodUID: "uid-web", Node: "node", Network: n.Reference()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []*multinet.Network{mine, wide} {
				n := ranged(n, "10.0.0.0/8", "10.0.0.1", "10.0.0.9")
				limits := Limits{Networks: 3, Prefix4: 16}
				operatortest.New(t, append(older, n, devices())...).View(func(tx store.ReadTx) {
					if d := decide(tx, n, nil, limits); d.Reason != v1alpha1.TenantLimitReason || d.above != "" {
						t.Errorf("%s without it: %s: %s", n, d.Reason, d.Message)
					}
				})
				operatortest.New(t, append(older, n, proof(n), devices())...).View(func(tx store.ReadTx) {
					if d := decide(tx, n, nil, limits); !d.IsReady() || d.above == "" {
						t.Errorf("%s: %s: %s, told %q", n, d.Reason, d.Message, d.above)
					}
				})
			}
		})
	}
}

// TestNetworkLimit_WorkingNetwork_PrecedesOlder: the limit is for all networks together.
func TestNetworkLimit_WorkingNetwork_PrecedesOlder(t *testing.T) {
	young := net(multinet.KindTenantNetwork, "a", "young", 9, func(n *multinet.Network) { n.HostDevice = "ens7" })
	rows := append(
		many(3, "a"),
		young,
		devices(),
		&multinet.DomainClaim{Meta: operatortest.Meta("d", 0), Number: v1alpha1.MinDomainNumber, Network: young.Reference()},
	)
	operatortest.New(t, rows...).View(func(tx store.ReadTx) {
		if got := accepted(tx, Limits{Networks: 2}); got != "a/n0 a/young" {
			t.Errorf("accepted are %q", got)
		}
		if d := decide(tx, young, nil, Limits{Networks: 2}); d.above != "" {
			t.Errorf("one of two that are allowed is told %q", d.above)
		}
	})
}

func TestNumberLimit_Tenant_Refused(t *testing.T) {
	first := net(multinet.KindTenantNetwork, "a", "first", 9, on("ens4"))
	young := net(multinet.KindTenantNetwork, "a", "young", 5, on("ens4"))
	plain := net(multinet.KindTenantNetwork, "a", "plain", 9, on("ens7"))
	granted := net(multinet.KindDanmNet, "a", "granted", 12, func(n *multinet.Network) { n.HostDevice, n.VLAN = "ens5", 7 })
	rows := []any{namespace("a", "shop"), first, young, plain, granted, claimed(first, multinet.VLAN, 500, "ens4"), devices()}
	operatortest.New(t, rows...).View(func(tx store.ReadTx) {
		for n, want := range map[*multinet.Network]string{first: "", young: v1alpha1.TenantLimitReason, plain: "", granted: v1alpha1.TenantLimitReason} {
			d := decide(tx, n, nil, Limits{Numbers: 1})
			if got := d.Reason == v1alpha1.TenantLimitReason; got != (want != "") || got && d.claim != nil {
				t.Errorf("%s: %s: %s, claims %v", n, d.Reason, d.Message, d.claim)
			}
		}
	})
}

func TestRangeLimit_Tenant_Refused(t *testing.T) {
	limits := Limits{Prefix4: 16, Prefix6: 64}
	ofTenant := func(kind, cidr string) *multinet.Network {
		return net(kind, "a", "net", 0, func(n *multinet.Network) {
			n.HostDevice = "ens7"
			n.V4 = multinet.Range{Prefix: operatortest.Prefixes(cidr)[0]}
		})
	}
	for _, tc := range []struct {
		net  *multinet.Network
		fits bool
	}{
		{ofTenant(multinet.KindTenantNetwork, "10.0.0.0/15"), false},
		{ofTenant(multinet.KindTenantNetwork, "10.0.0.0/16"), true},
		{ofTenant(multinet.KindTenantNetwork, "fd00::/63"), false},
		{ofTenant(multinet.KindTenantNetwork, "fd00::/64"), true},
		{ofTenant(multinet.KindDanmNet, "10.0.0.0/8"), false},
		{ofTenant(multinet.KindClusterNetwork, "10.0.0.0/8"), true},
	} {
		operatortest.New(t, tc.net, devices(), namespace("a", "shop")).View(func(tx store.ReadTx) {
			if d := decide(tx, tc.net, nil, limits); (d.Reason != v1alpha1.TenantLimitReason) != tc.fits {
				t.Errorf("%s %v: %s: %s", tc.net, tc.net.Ranges(), d.Reason, d.Message)
			}
		})
	}
}

// shares returns a TenantConfig that divides a device.
func shares() *multinet.TenantConfig {
	vnis := func(first, last uint32) []multinet.VNIRange { return []multinet.VNIRange{{First: first, Last: last}} }
	return &multinet.TenantConfig{
		Meta: operatortest.Meta("uid-config", 0), Group: "danm.k8s.io", Name: "tenants",
		Devices: []multinet.HostDevice{
			{Name: "ens4", VNIType: multinet.VLAN, VNIs: vnis(100, 110)},
			{Name: "ens4", VNIType: multinet.VLAN, VNIs: vnis(100, 101), Tenants: []string{"shop"}},
			{Name: "ens7", Tenants: []string{"shop"}, Ranges: operatortest.Prefixes("10.1.0.0/16", "fd01::/48")},
			{Name: "ens8", Tenants: []string{"bank"}},
		},
	}
}

// TestTenantShare_SharedDevice_OwnNumbersAndRanges: also of a device that others share.
func TestTenantShare_SharedDevice_OwnNumbersAndRanges(t *testing.T) {
	at := func(namespace, device, cidr string) *multinet.Network {
		return ranged(net(multinet.KindTenantNetwork, namespace, "net", 0, on(device)), cidr, "", "")
	}
	for _, tc := range []struct {
		name   string
		net    *multinet.Network
		vni    uint32
		reason string
	}{
		{"a number of its own", at("a", "ens4", "10.9.0.0/24"), 100, v1alpha1.VNIPendingReason},
		{"a number for all", at("c", "ens4", "10.9.0.0/24"), 102, v1alpha1.VNIPendingReason},
		{"a range of its own", at("a", "ens7", "10.1.3.0/24"), 0, v1alpha1.ReadyReason},
		{"another range", at("a", "ens7", "10.2.0.0/24"), 0, v1alpha1.RangeNotOfferedReason},
		{"a range around its own", at("a", "ens7", "10.0.0.0/15"), 0, v1alpha1.RangeNotOfferedReason},
		{"a device of nobody", at("a", "ens9", "10.1.0.0/24"), 0, v1alpha1.DeviceNotOfferedReason},
		{"the device of another tenant", at("a", "ens8", "10.1.0.0/24"), 0, v1alpha1.DeviceNotOfferedReason},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.net.Profiled = tc.reason == v1alpha1.ReadyReason
			operatortest.New(t, tc.net, shares(), namespace("a", "shop"), namespace("c", "other")).View(func(tx store.ReadTx) {
				d := decide(tx, tc.net, nil, Limits{})
				if d.Reason != tc.reason || tc.vni != 0 && (d.claim == nil || d.claim.vni != tc.vni) {
					t.Errorf("%s: %s, claims %v", d.Reason, d.Message, d.claim)
				}
				if tc.net.HostDevice != "ens8" && strings.Contains(d.Message, "ens8") {
					t.Errorf("the share of another tenant is told: %s", d.Message)
				}
			})
		})
	}
}

// TestNetworkChange_OtherTenantFloods_RequestsUnchanged counts the requests of a change beside many
// networks of another tenant: a flood on one device, above its limit, costs as much as none.
func TestNetworkChange_OtherTenantFloods_RequestsUnchanged(t *testing.T) {
	requests := func(flood int) (total int) {
		rows := many(flood, "b")
		for i, row := range rows {
			n := row.(*multinet.Network)
			n.HostDevice, n.Reason = "ens7", v1alpha1.TenantLimitReason
			if i < DefaultLimits.Networks {
				n.Profiled, n.Ready, n.Reason = true, true, v1alpha1.ReadyReason
			}
		}
		mine := onSegment(multinet.KindTenantNetwork, "a", "mine", 5, nil)
		rows = append(rows, mine, devices(), namespace("a", "shop"), namespace("b", "flood"))
		operatortest.New(t, rows...).View(func(tx store.ReadTx) {
			for _, kind := range outside.Networks {
				for _, change := range []feed.Change{{New: mine}, {Old: mine}, {Old: rows[flood-1]}} {
					old, _ := change.Old.(*multinet.Network)
					now, _ := change.New.(*multinet.Network)
					total += len(watch{kind}.ofNetwork(tx, old, now))
				}
			}
		})
		return total
	}
	if few, flooded := requests(2*DefaultLimits.Networks), requests(100*DefaultLimits.Networks); few != flooded {
		t.Errorf("three changes cause %d requests beside a flood, %d without it", flooded, few)
	}
}
