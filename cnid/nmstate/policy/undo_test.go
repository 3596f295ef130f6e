// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/store/rows/nmstate"
)

const stateBefore = `
interfaces:
- {name: eth1, type: ethernet, state: up, mtu: 1500, min-mtu: 68, permanent-mac-address: '02:00:00:00:00:01', ipv4: {enabled: true, address: [{ip: 192.0.2.1, prefix-length: 24}]}, ipv6: {enabled: false}}
- {name: eth2, type: ethernet, state: down, mtu: 1500, ipv4: {enabled: false}}
- {name: eth3, type: ethernet, state: up, ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.3, prefix-length: 24}]}, ipv6: {enabled: true, dhcp: false}}
- {name: br7, type: linux-bridge, state: down, mtu: 1500}
- {name: eth4, type: ethernet, state: up, alt-names: [{name: enp4s0}, {name: other}]}
- {name: vx1, type: vxlan, state: up, vxlan: {id: 7, base-iface: eth1}}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-interface: eth1, next-hop-address: 192.0.2.254, table-id: 254}
  - {destination: 198.51.100.0/24, next-hop-interface: eth2, table-id: 254}
dns-resolver: {config: {server: [192.0.2.53]}}
`

func TestStateUndo_PolicyRemoved_OnlyItsFieldsRestored(t *testing.T) {
	for _, tc := range []struct{ name, removed, next, want, left string }{
		{"nothing", "", "", "", ""},
		{"a virtual interface", "interfaces: [{name: br1, type: linux-bridge, mtu: 9000}]", "", "interfaces: [{name: br1, type: linux-bridge, state: absent, made-by: alioth}]", ""},
		{"a virtual interface that another has too", "interfaces: [{name: br1, type: linux-bridge}]", "interfaces: [{name: br1, mtu: 9000}]", "", ""},
		{"a setting", "interfaces: [{name: eth1, mtu: 9000}]", "", "interfaces: [{name: eth1, mtu: 1500, state: up}]", ""},
		{"a setting of an interface that was down", "interfaces: [{name: eth2, mtu: 9000}]", "", "interfaces: [{name: eth2, mtu: 1500, state: down}]", ""},
		{"a setting that another has", "interfaces: [{name: eth1, mtu: 9000}]", "interfaces: [{name: eth1, mtu: 8000}]", "", ""},
		{"a setting of an interface that another keeps down", "interfaces: [{name: eth1, mtu: 9000}]", "interfaces: [{name: eth1, state: down}]", "interfaces: [{name: eth1, mtu: 1500, state: down}]", ""},
		{"addresses, and the routes that went with the former ones", "interfaces: [{name: eth1, ipv4: {address: [{ip: 192.0.2.7, prefix-length: 24}]}}]", "", "{interfaces: [{name: eth1, state: up, ipv4: {address: [{ip: 192.0.2.1, prefix-length: 24}]}}], routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eth1, next-hop-address: 192.0.2.254, table-id: 254}]}}", ""},
		{"addresses where none were", "interfaces: [{name: eth2, ipv4: {enabled: true, address: [{ip: 192.0.2.7, prefix-length: 24}]}}]", "", "interfaces: [{name: eth2, state: down, ipv4: {enabled: false, address: []}}]", ""},
		{"DHCP, whose lease would stay as a static address", "interfaces: [{name: eth3, ipv4: {dhcp: true}, ipv6: {dhcp: false}}]", "", "interfaces: [{name: eth3, state: up, ipv4: {dhcp: false, address: [{ip: 192.0.2.3, prefix-length: 24}]}, ipv6: {dhcp: false, address: []}}]", ""},
		{"DHCP, where another has the addresses", "interfaces: [{name: eth3, ipv4: {dhcp: true}}]", "interfaces: [{name: eth3, ipv4: {address: []}}]", "interfaces: [{name: eth3, ipv4: {dhcp: false}}]", ""},
		{"what a change waits for", "interfaces: [{name: eth1, wait-ip: any}]", "", "interfaces: [{name: eth1, state: up}]", ""},
		{"a description and a controller", "interfaces: [{name: eth1, description: x, controller: br9}]", "", "interfaces: [{name: eth1, state: up, description: '', controller: ''}]", ""},
		{"alternative names", "interfaces: [{name: eth4, alt-names: [{name: dhcp}, {name: enp4s0}, {name: gone, state: absent}, {name: other, state: absent}]}]", "", "interfaces: [{name: eth4, alt-names: [{name: dhcp, state: absent}, {name: enp4s0}, {name: other}], state: up}]", ""},
		{"an alternative name that another has", "interfaces: [{name: eth4, alt-names: [{name: a}, {name: b}]}]", "interfaces: [{name: eth4, alt-names: [{name: b}]}]", "interfaces: [{name: eth4, alt-names: [{name: a, state: absent}]}]", ""},
		{"a setting that was not known", "interfaces: [{name: eth1, accept-all-mac-addresses: true}]", "", "interfaces: [{name: eth1, state: up}]", "interfaces[eth1].accept-all-mac-addresses"},
		{"a setting that was not known, and another has", "interfaces: [{name: eth1, accept-all-mac-addresses: true}]", "interfaces: [{name: eth1, accept-all-mac-addresses: false}]", "", ""},
		{"a field below which another has some", "interfaces: [{name: eth1, odd: [1]}]", "interfaces: [{name: eth1, odd: {a: 1}}]", "", ""},
		{"a setting of a virtual interface that was down", "interfaces: [{name: br7, mtu: 9000}]", "", "interfaces: [{name: br7, mtu: 1500, state: inactive}]", ""},
		{"a virtual interface that was down and was made absent", "interfaces: [{name: br7, state: absent}]", "", "interfaces: [{name: br7, type: linux-bridge, mtu: 1500, state: inactive}]", ""},
		{"hardware that came later", "interfaces: [{name: eth9, type: ethernet, mtu: 9000}]", "", "", "interfaces[eth9]"},
		{"an interface that was made absent", "interfaces: [{name: vx1, type: vxlan, state: absent}]", "", "interfaces: [{name: vx1, type: vxlan, state: up, vxlan: {id: 7, base-iface: eth1}}]", ""},
		{"one that was made absent and never was", "interfaces: [{name: x, state: absent}]", "", "", ""},
		{"one that was ignored", "interfaces: [{name: eth1, state: ignore}]", "", "", ""},
		{"hardware that was made down", "interfaces: [{name: eth1, state: down}]", "", "{interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1500, ipv4: {enabled: true, address: [{ip: 192.0.2.1, prefix-length: 24}]}, ipv6: {enabled: false}}], routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eth1, next-hop-address: 192.0.2.254, table-id: 254}]}}", ""},
		{"ports of a bond", "interfaces: [{name: bond1, type: bond, link-aggregation: {port: [eth1]}}]", "", "{interfaces: [{name: bond1, type: bond, state: absent, made-by: alioth}, {name: eth1, state: up, controller: '', mtu: 1500, ipv4: {enabled: true, address: [{ip: 192.0.2.1, prefix-length: 24}]}, ipv6: {enabled: false}}], routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eth1, next-hop-address: 192.0.2.254, table-id: 254}]}}", ""},
		{"ports of a bridge, of which another has one", "interfaces: [{name: br1, type: linux-bridge, bridge: {port: [{name: eth1}, {name: eth2}]}}]", "interfaces: [{name: br2, type: linux-bridge, bridge: {port: [{name: eth1}]}}]", "interfaces: [{name: br1, type: linux-bridge, state: absent, made-by: alioth}, {name: eth2, state: down, controller: '', mtu: 1500, ipv4: {enabled: false}}]", ""},
		{"ports that another makes absent", "interfaces: [{name: bond1, type: bond, link-aggregation: {port: [eth2]}}]", "interfaces: [{name: eth2, state: absent}]", "interfaces: [{name: bond1, type: bond, state: absent, made-by: alioth}]", ""},
		{"a route", "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth1}]}", "", "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth1, state: absent}]}", ""},
		{"a route that was there", "routes: {config: [{destination: 198.51.100.0/24, next-hop-interface: eth2}]}", "", "", ""},
		{"a route that another has", "routes: {config: [{destination: 10.0.0.0/8}]}", "routes: {config: [{destination: 10.0.0.0/8}]}", "", ""},
		{"a route of an interface that goes", "{interfaces: [{name: d1, type: dummy}], routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: d1}]}}", "", "interfaces: [{name: d1, type: dummy, state: absent, made-by: alioth}]", ""},
		{"routes that were removed", "routes: {config: [{state: absent, next-hop-interface: eth2}]}", "", "routes: {config: [{destination: 198.51.100.0/24, next-hop-interface: eth2, table-id: 254}]}", ""},
		{"a rule", "route-rules: {config: [{ip-to: 10.0.0.0/8, priority: 7}]}", "", "route-rules: {config: [{ip-to: 10.0.0.0/8, priority: 7, state: absent}]}", ""},
		{"the resolver", "dns-resolver: {config: {server: [192.0.2.99], search: [example.com]}}", "", "dns-resolver: {config: {server: [192.0.2.53]}}", ""},
		{"the resolver, of which another has other fields", "dns-resolver: {config: {server: [192.0.2.99]}}", "dns-resolver: {config: {search: [example.com]}}", "", ""},
		{"the resolver, which another has", "dns-resolver: {config: {search: [example.com]}}", "dns-resolver: {config: {server: [192.0.2.99]}}", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, left, err := Undo(document(t, tc.removed), document(t, tc.next), document(t, stateBefore))
			if err != nil {
				t.Fatal(err)
			}
			same(t, "back", got, tc.want)
			if strings.Join(left, " ") != tc.left {
				t.Errorf("left are %q, want %q", left, tc.left)
			}
		})
	}
}

func TestStateUndo_NoResolverBefore_ResolverEmptied(t *testing.T) {
	got, _, err := Undo(document(t, "dns-resolver: {config: {server: [192.0.2.99]}}"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "back", got, "dns-resolver: {config: {}}")
}

func TestStateUndo_Unreadable_NotUndone(t *testing.T) {
	bad := document(t, "interfaces: [{mtu: 1}]")
	for i, want := range []string{"the removed part", "the next desired state", "the state before"} {
		var states [3]map[string]any
		states[i] = bad
		if _, _, err := Undo(states[0], states[1], states[2]); err == nil || !strings.Contains(err.Error(), want+": interfaces[0].name") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestStateUndo_RemainingPolicies_NothingTaken: as a share of lowest priority it changes no field
// of the others, and meets no conflict on an interface.
func TestStateUndo_RemainingPolicies_NothingTaken(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		shares, manual, before := randomShares(r), randomState(r), randomState(r)
		all, err := Aggregate(shares, manual)
		if err != nil {
			t.Fatal(err)
		}
		gone := r.IntN(len(shares))
		removed := all.Part(shares[gone].Policy.String())
		shares = slices.Delete(shares, gone, gone+1)
		next, err := Aggregate(shares, manual)
		if err != nil {
			t.Fatal(err)
		}
		back, _, err := Undo(removed, next.Desired, before)
		if err != nil {
			t.Fatal(err)
		}
		shares = append(shares, Share{Policy: nmstate.Reference{Kind: "undo", Name: "undo"}, Priority: -1 << 31, Desired: back})
		both, err := Aggregate(shares, manual)
		if err != nil {
			t.Fatal(err)
		}
		got := values(t, both.Desired)
		for path, want := range values(t, next.Desired) {
			if got[path] != want {
				t.Fatalf("seed %d: %s was %s, and is %s", seed, path, want, got[path])
			}
		}
		for _, c := range both.Conflicts[len(next.Conflicts):] {
			if strings.HasPrefix(c.Path, interfaces) {
				t.Fatalf("seed %d: %s\nnext %s\nback %s", seed, c, words(t, next.Desired), words(t, back))
			}
		}
	}
}
