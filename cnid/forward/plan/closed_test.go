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

func TestPlan_DefaultVPCCoversNodeNeeds_NotRouted(t *testing.T) {
	const fine = "10.244.0.0/16"
	cases := map[string]struct {
		covering string
		row      func(store.Tx) error
		change   func(*Config)
	}{
		"this node":                     {"192.0.0.0/16", node("node1", "192.0.2.1"), func(*Config) {}},
		"another node":                  {"2001:db8::/64", node("node2", "2001:db8::2"), func(*Config) {}},
		"another node, no InternalIP":   {"198.51.100.0/24", node2With("198.51.100.9"), func(*Config) {}},
		"an endpoint of the API server": {"10.10.0.0/16", slice("default", "kubernetes", "a", nil, ready("10.10.1.77")), func(*Config) {}},
		"the configured host":           {"10.10.0.0/16", pod("x", false), func(cfg *Config) { cfg.Reserved = ips("10.10.1.77") }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := tenants(t)
			w.put(t, c.row, vpc("default", 1, c.covering, fine))
			got := w.build(c.change)
			for what, list := range map[string][]netip.Prefix{"filter": got.Filter.DefaultVPC, "routes": got.Devices.Node.Prefixes} {
				if diff := cmp.Diff(prefixes(fine), list, byValue); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
			closed := state.ClosedPrefix{Prefix: prefix(c.covering), Class: state.ClosedDefaultVPC}
			if !slices.Contains(got.Datapath.Closed, closed) {
				t.Errorf("tenants' egress may reach %s: %v", c.covering, got.Datapath.Closed)
			}
		})
	}
}

func TestPlan_ServiceRangeAdded_EgressClosed(t *testing.T) {
	added := prefixes("10.97.0.0/16", "fd97::/112")
	w, p := tenants(t), &Planner{}
	w.plan(p)
	w.put(t, func(tx store.Tx) error {
		return store.PutServiceCIDR(tx, &store.ServiceCIDR{Name: "more", Prefixes: added})
	})
	closed := together(w.plan(p)).Datapath.Closed
	for _, prefix := range added {
		if !slices.Contains(closed, state.ClosedPrefix{Prefix: prefix, Class: state.ClosedService}) {
			t.Errorf("%s is not closed: %v", prefix, closed)
		}
	}
}

func TestPlan_AddressHeldByNode_NotTakenAgain(t *testing.T) {
	w := newWorld(t,
		node("node1", "192.0.2.1"), node("node2", "10.244.0.7"), vpc("default", 1, "10.244.0.0/16", "fd10:244::/48"),
		address("default", "10.244.0.7", "node1", store.HolderNode, "node1"),
		address("default", "fd10:244::7", "node1", store.HolderNode, "node1"),
	)
	got := w.build()
	if diff := cmp.Diff(ips("fd10:244::7"), got.Devices.Node.Addrs, byValue); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(prefixes("fd10:244::/48"), got.Devices.Node.Prefixes, byValue); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// TestPlan_NodeInDefaultVPC_RangeKept: any kubelet may report addresses there. The range
// serves pods, so every other node keeps it, and its own interface.
func TestPlan_NodeInDefaultVPC_RangeKept(t *testing.T) {
	const home = "10.244.0.0/16"
	for name, row := range map[string]func(store.Tx) error{
		"an address that nobody has": node("node9", "192.0.2.9", "10.244.3.3"),
		"the node's own in the VPC":  node("node9", "192.0.2.9", "10.244.0.7"),
		"another node's in the VPC":  node("node9", "10.244.0.8"),
		"one of another kind, as ExternalIP": func(tx store.Tx) error {
			return store.PutNode(tx, &store.Node{Meta: store.Meta{UID: "node9"}, Name: "node9", AllAddresses: ips("10.244.3.3")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := tenants(t)
			before := w.build()
			w.put(t, row)
			got := w.build()
			for what, list := range map[string][]netip.Prefix{"filter": got.Filter.DefaultVPC, "routes": got.Devices.Node.Prefixes} {
				if diff := cmp.Diff(prefixes(home), list, byValue); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
			if diff := cmp.Diff(before.Devices.Node.Addrs, got.Devices.Node.Addrs, byValue); diff != "" {
				t.Errorf("addresses of the node (-before +now):\n%s", diff)
			}
		})
	}
}

// TestPlan_NodeAddressInDefaultVPC_NodeWins: the node's own kubelet has
// said that it is there, and without it the node is lost.
func TestPlan_NodeAddressInDefaultVPC_NodeWins(t *testing.T) {
	w := tenants(t)
	w.put(t, node("node1", "10.244.9.9"))
	got := w.build()
	if len(got.Filter.DefaultVPC) > 0 || len(got.Devices.Node.Prefixes) > 0 {
		t.Errorf("the node is cut off from its own network: %v, %v", got.Filter.DefaultVPC, got.Devices.Node.Prefixes)
	}
}
