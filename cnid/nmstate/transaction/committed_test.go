// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// leased is a host whose eth0 has an address and a route that no document declared.
const leased = `
interfaces:
- {name: lo, type: loopback, state: up, mtu: 65536}
- name: eth0
  type: ethernet
  state: up
  mtu: 1500
  mac-address: "02:00:00:00:00:01"
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.7, prefix-length: 24}]}
  ipv6: {enabled: true, autoconf: true, address: []}
- {name: eth1, type: ethernet, state: up, mtu: 1500, controller: ""}
- {name: eth2, type: ethernet, state: up, mtu: 1500, controller: ""}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0}
`

func parsed(t *testing.T, text string) *document.State {
	t.Helper()
	s, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// commits returns the committed state after documents that were applied one after another.
// The host has what they made by then.
func commits(t *testing.T, documents ...string) *document.State {
	t.Helper()
	now, committed := parsed(t, leased), &document.State{}
	for _, text := range documents {
		desired := parsed(t, text)
		resolved, err := target.Resolve(desired, now)
		if err != nil {
			t.Fatal(err)
		}
		committed = merged(committed, change{desired: desired, before: now, target: resolved})
		now = after(now, resolved)
	}
	return committed
}

// after is a host that has reached a target.
func after(now *document.State, t *target.Target) *document.State {
	interfaces := byName(now.Interfaces)
	for _, i := range t.Interfaces {
		if interfaces[i.Name] = i; i.State == document.Absent {
			delete(interfaces, i.Name)
		}
	}
	s := &document.State{Routes: &document.Routes{Config: t.Routes}, RouteRules: &document.RouteRules{Config: t.Rules}}
	for _, i := range interfaces {
		s.Interfaces = append(s.Interfaces, i)
	}
	return s
}

func TestCommittedState_Declaration_Contained(t *testing.T) {
	for name, test := range map[string]struct {
		documents []string
		want      string
	}{
		"an MTU declares no address": {
			[]string{"interfaces: [{name: eth0, mtu: 1400}]"},
			"interfaces: [{name: eth0, type: ethernet, state: up, mtu: 1400}]",
		},
		"what another document declared stays": {
			[]string{"interfaces: [{name: eth0, mtu: 1400}]", "interfaces: [{name: eth0, description: a, state: up}]"},
			"interfaces: [{name: eth0, type: ethernet, state: up, mtu: 1400, description: a}]",
		},
		"a value replaces an earlier one": {
			[]string{"interfaces: [{name: eth0, state: up, mtu: 1400}]", "interfaces: [{name: eth0, mtu: 1450}]"},
			"interfaces: [{name: eth0, type: ethernet, state: up, mtu: 1450}]",
		},
		"an absent interface is forgotten, with what is above": {
			[]string{
				"interfaces: [{name: d0, type: dummy, state: up}, {name: d0.5, type: vlan, state: up, vlan: {base-iface: d0, id: 5}}, {name: eth1, state: up, mtu: 1400}]",
				"interfaces: [{name: d0, state: absent}]",
			},
			"interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1400}]",
		},
		"an absent loopback interface is forgotten, though it stays": {
			[]string{"interfaces: [{name: lo, mtu: 9000}]", "interfaces: [{name: lo, state: absent}]"}, "{}",
		},
		"a port that moves leaves the list of its old controller": {
			[]string{
				"interfaces: [{name: br1, type: linux-bridge, state: up, bridge: {port: [{name: eth1}]}}]",
				"interfaces: [{name: br2, type: linux-bridge, state: up}, {name: eth1, state: up, controller: br2}]",
			},
			"interfaces: [{name: br1, type: linux-bridge, state: up, bridge: {port: []}}, {name: br2, type: linux-bridge, state: up}, {name: eth1, type: ethernet, state: up, controller: br2}]",
		},
		"an interface that is ignored is not declared": {
			[]string{"interfaces: [{name: eth0, state: ignore, mtu: 1400}]"}, "{}",
		},
		"a route that was there already is declared": {
			[]string{"routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0}]}"},
			"routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0, table-id: 254, metric: 0}]}",
		},
		"a route of a VRF has the table of that": {
			[]string{"{interfaces: [{name: r, type: vrf, state: up, vrf: {port: [eth1], route-table-id: 100}}], routes: {config: [{destination: 198.51.100.0/24, next-hop-interface: eth1, vrf-name: r}]}}"},
			"{interfaces: [{name: r, type: vrf, state: up, vrf: {port: [eth1], route-table-id: 100}}], routes: {config: [{destination: 198.51.100.0/24, next-hop-interface: eth1, table-id: 100, metric: 0}]}}",
		},
		"a route that is ignored is not declared": {
			[]string{"routes: {config: [{state: ignore, destination: 198.51.100.0/24, next-hop-interface: eth1}]}"}, "{}",
		},
		"servers that no document names are not declared": {
			[]string{"dns-resolver: {config: {search: [a.example]}}"}, "dns-resolver: {config: {search: [a.example]}}",
		},
		"lists of a resolver are put together": {
			[]string{"dns-resolver: {config: {server: [192.0.2.1], options: [rotate]}}", "dns-resolver: {config: {search: [a.example], options: []}}"},
			"dns-resolver: {config: {server: [192.0.2.1], search: [a.example], options: []}}",
		},
		"an empty resolver stays empty": {
			[]string{"dns-resolver: {config: {server: [192.0.2.1]}}", "dns-resolver: {config: {}}"}, "dns-resolver: {config: {server: [], search: [], options: []}}",
		},
		"a removed route is forgotten": {
			[]string{
				"routes: {config: [{destination: 198.51.100.0/24, next-hop-address: 192.0.2.1, next-hop-interface: eth0}]}",
				"routes: {config: [{state: absent, destination: 198.51.100.0/24}]}",
			}, "{}",
		},
		"routes of an interface that is down are forgotten": {
			[]string{
				"routes: {config: [{destination: 198.51.100.0/24, next-hop-address: 192.0.2.1, next-hop-interface: eth0}]}",
				"interfaces: [{name: eth0, state: down}]",
			}, "interfaces: [{name: eth0, type: ethernet, state: down}]",
		},
		"rules are as routes": {
			[]string{
				"route-rules: {config: [{ip-from: 192.0.2.0/24, route-table: 7, priority: 5}, {ip-from: 192.0.2.0/24, route-table: 8, priority: 6}]}",
				"route-rules: {config: [{state: absent, route-table: 7}]}",
			}, "route-rules: {config: [{family: ipv4, ip-from: 192.0.2.0/24, route-table: 8, priority: 6}]}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(parsed(t, test.want), commits(t, test.documents...)); diff != "" {
				t.Errorf("committed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommittedState_OnlyChangedByDocument_Made(t *testing.T) {
	first := commits(t, `
interfaces:
- {name: v1, type: vlan, state: up, vlan: {base-iface: eth0, id: 5}}
- {name: vrf1, type: vrf, state: up, vrf: {port: [eth1], route-table-id: 100}}
- {name: bond1, type: bond, state: up, link-aggregation: {mode: balance-rr, port: []}}`)
	resolved, err := target.Resolve(
		parsed(t, "interfaces: [{name: v1, mtu: 1400}, {name: vrf1, description: a}, {name: bond1, mtu: 1400}]"),
		after(parsed(t, leased), &target.Target{Interfaces: first.Interfaces}),
	)
	if err != nil {
		t.Fatal(err)
	}
	desired := parsed(t, "interfaces: [{name: v1, mtu: 1400}, {name: vrf1, description: a}, {name: bond1, mtu: 1400}]")
	committed := merged(&document.State{}, change{desired: desired, before: &document.State{}, target: resolved})
	if _, err := target.Resolve(committed, parsed(t, leased)); err != nil {
		t.Errorf("after a boot: %v", err)
	}
	if ports := byName(committed.Interfaces)["vrf1"].VRF.Ports; ports != nil {
		t.Errorf("ports that no document named are declared: %v", ports)
	}
}
