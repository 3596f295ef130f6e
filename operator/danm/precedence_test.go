// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// namespace is one of a tenant.
func namespace(name, tenant string) *store.Namespace {
	return &store.Namespace{Meta: operatortest.Meta("uid-ns-"+name, 0), Name: name, Tenant: tenant}
}

// onSegment returns a network of a kind with a pool on ens7, which has no numbers.
func onSegment(kind, namespace, name string, age int, change func(*multinet.Network)) *multinet.Network {
	return ranged(net(kind, namespace, name, age, func(n *multinet.Network) {
		n.HostDevice, n.Profiled = "ens7", kind == multinet.KindTenantNetwork
		if change != nil {
			change(n)
		}
	}), "10.0.0.0/16", "10.0.0.1", "10.0.255.254")
}

// TestOverlap_EachPairOfKinds_MoreRightsWin has every pair of kinds, the loser first, and the
// message to the loser.
func TestOverlap_EachPairOfKinds_MoreRightsWin(t *testing.T) {
	const danmNet, cluster, tenant = multinet.KindDanmNet, multinet.KindClusterNetwork, multinet.KindTenantNetwork
	secret := func(n *multinet.Network) { n.AllowedNamespaces = []string{"b"} }
	for _, tc := range []struct {
		name          string
		loser, winner *multinet.Network
		text, untold  string
	}{
		{"an administrator after a tenant", onSegment(tenant, "a", "net", 0, nil), onSegment(cluster, "", "wan", 9, nil), "ClusterNetwork wan", ""},
		{"an administrator's, not for the tenant", onSegment(tenant, "a", "net", 0, nil), onSegment(cluster, "", "wan", 9, secret), "a ClusterNetwork of the cluster's administrators", "wan"},
		{"a person with a grant after a tenant", onSegment(tenant, "a", "net", 0, nil), onSegment(danmNet, "c", "lan", 9, nil), "a DanmNet of another tenant", "lan"},
		{"an administrator after a person with a grant", onSegment(danmNet, "a", "net", 0, func(n *multinet.Network) { n.NetworkID = "x" }), ranged(onSegment(cluster, "", "wan", 9, nil), "10.0.0.0/8", "10.0.0.1", "10.0.0.9"), "ClusterNetwork wan", ""},
		{"two tenants: the older", onSegment(tenant, "a", "net", 9, nil), onSegment(tenant, "c", "theirs", 0, nil), "a TenantNetwork of another tenant", "theirs"},
		{"one tenant in two namespaces", onSegment(tenant, "a", "net", 9, nil), onSegment(tenant, "b", "ours", 0, nil), "TenantNetwork b/ours", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows := []any{tc.loser, tc.winner, devices(), namespace("a", "shop"), namespace("b", "shop"), namespace("c", "bank")}
			operatortest.New(t, rows...).View(func(tx store.ReadTx) {
				if d := decide(tx, tc.winner, nil, Limits{}); !d.IsReady() {
					t.Errorf("the winner: %s: %s", d.Reason, d.Message)
				}
				d := decide(tx, tc.loser, nil, Limits{})
				if d.IsReady() || d.Reason != v1alpha1.OverlapReason || !strings.Contains(d.Message, tc.text) {
					t.Errorf("the loser: %s: %s, want %q", d.Reason, d.Message, tc.text)
				}
				if tc.untold != "" && strings.Contains(d.Message, tc.untold) {
					t.Errorf("the loser is told of another tenant: %s", d.Message)
				}
			})
		})
	}
}

// TestNumber_AdministratorWantsIt_TenantLosesIt: from the range of tenants, and from a TenantNetwork that has
// claimed it. The tenant gets a message, and the administrator a message about remaining pods.
func TestNumber_AdministratorWantsIt_TenantLosesIt(t *testing.T) {
	admin := net(multinet.KindClusterNetwork, "", "wan", 9, func(n *multinet.Network) { n.HostDevice, n.VLAN = "ens4", 505 })
	holder := net(multinet.KindTenantNetwork, "b", "n", 0, func(n *multinet.Network) { n.HostDevice, n.VLAN, n.Profiled = "ens4", 505, true })
	held := &multinet.Claim{
		Meta: operatortest.Meta("uid-claim", 0), Namespace: "b", Name: "claim", PodName: "web", PodUID: "uid-web", Node: "node", Interface: "eth0",
		Network: holder.Reference(),
	}
	operatortest.New(t, admin, devices()).View(func(tx store.ReadTx) {
		if d := decide(tx, admin, nil, Limits{}); !d.IsReady() {
			t.Errorf("in the range of tenants: %s: %s", d.Reason, d.Message)
		}
		next, r := chooseVNI(tx, tenants(nil), devices().Devices[0], devices(), numbersBelow(505))
		if r != nil || next != 506 {
			t.Errorf("a tenant gets %d instead: %+v", next, r)
		}
	})
	operatortest.New(t, admin, holder, claimed(holder, multinet.VLAN, 505, "ens4"), held, devices()).View(func(tx store.ReadTx) {
		d := decide(tx, admin, nil, Limits{})
		if !d.IsReady() || !strings.Contains(d.notEnforced, "TenantNetwork b/n") {
			t.Errorf("the winner: %s: %s; not enforced: %q", d.Reason, d.Message, d.notEnforced)
		}
		d = decide(tx, holder, nil, Limits{})
		if d.IsReady() || d.Reason != v1alpha1.VNITakenReason || !strings.Contains(d.Message, "ClusterNetwork wan") || len(d.release) > 0 {
			t.Errorf("the loser: %s: %s, releases %v", d.Reason, d.Message, d.release)
		}
	})
}

// numbersBelow returns the numbers of ens4 below limit.
func numbersBelow(limit uint32) []number {
	all := []number{{multinet.VLAN, 200, "ens4"}}
	for vni := uint32(500); vni < limit; vni++ {
		all = append(all, number{multinet.VLAN, vni, "ens4"})
	}
	return all
}
