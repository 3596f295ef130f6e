// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"
)

const stateWithBridge = `
interfaces:
- {name: br0, type: linux-bridge, bridge: {port: [{name: eth3}]}}
- {name: eth1, type: ethernet, mtu: 1500}
- {name: eth2, type: ethernet, mtu: 1500}
- {name: eth3, type: ethernet, mtu: 1500}
routes:
  config:
  - {destination: 10.0.0.0/8, next-hop-interface: eth1}
  - {destination: 10.1.0.0/16, next-hop-interface: eth2}
route-rules: {config: [{ip-to: 10.0.0.0/8, priority: 7}]}
dns-resolver: {config: {server: [192.0.2.53]}, running: {server: [192.0.2.53]}}
`

func TestExcerpt_DesiredState_HasChangeableFields(t *testing.T) {
	for _, tc := range []struct{ name, desired, want string }{
		{"nothing", "", ""},
		{"an interface, and its routes", "interfaces: [{name: eth1, mtu: 9000}]", "{interfaces: [{name: eth1, type: ethernet, mtu: 1500}], routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth1}]}}"},
		{"one that is not there", "interfaces: [{name: d1, type: dummy}]", ""},
		{"ports", "interfaces: [{name: bond1, type: bond, link-aggregation: {port: [eth2]}}]", "{interfaces: [{name: eth2, type: ethernet, mtu: 1500}], routes: {config: [{destination: 10.1.0.0/16, next-hop-interface: eth2}]}}"},
		{"the controller of a port", "interfaces: [{name: eth3, mtu: 9000}]", "interfaces: [{name: br0, type: linux-bridge, bridge: {port: [{name: eth3}]}}, {name: eth3, type: ethernet, mtu: 1500}]"},
		{"a route that is removed", "routes: {config: [{state: absent, next-hop-interface: eth2}]}", "routes: {config: [{destination: 10.1.0.0/16, next-hop-interface: eth2}]}"},
		{"a rule that is added", "route-rules: {config: [{ip-to: 10.0.0.0/8}]}", "route-rules: {config: [{ip-to: 10.0.0.0/8, priority: 7}]}"},
		{"the resolver", "dns-resolver: {config: {search: [example.com]}}", "dns-resolver: {config: {server: [192.0.2.53]}}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Excerpt(document(t, stateWithBridge), document(t, tc.desired))
			if err != nil {
				t.Fatal(err)
			}
			same(t, "excerpt", got, tc.want)
		})
	}
	for i, states := range [][2]string{{"interfaces: 7", ""}, {"", "interfaces: 7"}} {
		if _, err := Excerpt(document(t, states[0]), document(t, states[1])); err == nil || !strings.Contains(err.Error(), "interfaces") {
			t.Errorf("%d: a state that can't be read: got %v", i, err)
		}
	}
}

func TestOrigin_PoliciesApplied_StateWithoutPolicies(t *testing.T) {
	past := func(before string, changes ...string) Past {
		p := Past{Before: document(t, before)}
		for _, change := range changes {
			p.Changes = append(p.Changes, document(t, change))
		}
		return p
	}
	for _, tc := range []struct {
		name, current string
		pasts         []Past
		want          string
	}{
		{"no policy", "interfaces: [{name: eth1, mtu: 1500}]", nil, "interfaces: [{name: eth1, mtu: 1500}]"},
		{
			"a setting, an interface that was made, and one beside", "interfaces: [{name: eth1, mtu: 9000}, {name: d1}, {name: eth2}]",
			[]Past{past("interfaces: [{name: eth1, mtu: 1500}]", "interfaces: [{name: eth1, mtu: 9000}, {name: d1, type: dummy}]")},
			"interfaces: [{name: eth1, mtu: 1500}, {name: eth2}]",
		},
		{
			"an interface that was removed", "",
			[]Past{past("interfaces: [{name: vx1, type: vxlan}]", "interfaces: [{name: vx1, state: absent}]")},
			"interfaces: [{name: vx1, type: vxlan}]",
		},
		{
			"two that change one interface", "interfaces: [{name: eth1, mtu: 8000}]",
			[]Past{
				past("interfaces: [{name: eth1, mtu: 1500}]", "interfaces: [{name: eth1, mtu: 9000}]"),
				past("interfaces: [{name: eth1, mtu: 1500}]", "interfaces: [{name: eth1, mtu: 8000}]"),
			},
			"interfaces: [{name: eth1, mtu: 1500}]",
		},
		{
			"a controller that was only looked at", "interfaces: [{name: br0, mtu: 9000}, {name: eth1, mtu: 9000}]",
			[]Past{past("interfaces: [{name: br0, mtu: 1500}, {name: eth1, mtu: 1500}]", "interfaces: [{name: eth1, mtu: 9000}]")},
			"interfaces: [{name: br0, mtu: 9000}, {name: eth1, mtu: 1500}]",
		},
		{
			"routes that were added, removed, and there before", "routes: {config: [{destination: 10.0.0.0/8}, {destination: 10.1.0.0/16}, {destination: 10.3.0.0/16}]}",
			[]Past{past("routes: {config: [{destination: 10.1.0.0/16}, {destination: 10.2.0.0/16}]}", "routes: {config: [{destination: 10.0.0.0/8}, {destination: 10.1.0.0/16}, {destination: 10.2.0.0/16, state: absent}]}")},
			"routes: {config: [{destination: 10.3.0.0/16}, {destination: 10.1.0.0/16}, {destination: 10.2.0.0/16}]}",
		},
		{
			"the route of a port", "interfaces: [{name: eth1}]",
			[]Past{past("{interfaces: [{name: eth1}], routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eth1}]}}", "interfaces: [{name: bond1, type: bond, link-aggregation: {port: [eth1]}}]")},
			"{interfaces: [{name: eth1}], routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eth1}]}}",
		},
		{
			"the resolver", "dns-resolver: {config: {server: [192.0.2.1], search: [x]}}",
			[]Past{past("dns-resolver: {config: {server: [192.0.2.53]}}", "dns-resolver: {config: {server: [192.0.2.1], search: [x]}}")},
			"dns-resolver: {config: {server: [192.0.2.53]}}",
		},
		{
			"what is undone", "interfaces: [{name: d1}, {name: eth1, mtu: 9000}]",
			[]Past{past("interfaces: [{name: eth1, mtu: 1500}]", "", "interfaces: [{name: d1, state: absent}, {name: eth1, mtu: 1500}]")},
			"interfaces: [{name: eth1, mtu: 1500}]",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Origin(document(t, tc.current), tc.pasts)
			if err != nil {
				t.Fatal(err)
			}
			if want := document(t, tc.want); !Same(got, want) {
				t.Errorf("got %s, want %s", words(t, got), words(t, want))
			}
		})
	}
}

func TestOrigin_HardwareGone_NotRestored(t *testing.T) {
	before := document(t, "{interfaces: [{name: eth1}, {name: eth2}, {name: vx1}], routes: {config: [{destination: 10.0.0.0/8}]}}")
	got, err := Remaining(
		before,
		document(t, "interfaces: [{name: eth1}]"),
		document(t, "interfaces: [{name: eth1, mtu: 9000}, {name: eth2, mtu: 9000}, {name: vx1, state: absent}]"),
	)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "remaining", got, "{interfaces: [{name: eth1}, {name: vx1}], routes: {config: [{destination: 10.0.0.0/8}]}}")
}

func TestMatchRules_AfterApply_SeeInterfacesBeforePolicy(t *testing.T) {
	got := Seen(
		document(t, "interfaces: [{name: v7, type: vlan, vlan: {id: 8}}, {name: eth1, type: ethernet}]"),
		document(t, "interfaces: [{name: v7, type: vlan, vlan: {id: 7}}, {name: vx1, type: vxlan}, {name: eth9, type: ethernet}]"),
		document(t, "interfaces: [{name: v7, vlan: {id: 8}}, {name: vx1, state: absent}, {name: eth9, mtu: 9000}]"))
	if want := document(t, "interfaces: [{name: eth1, type: ethernet}, {name: v7, type: vlan, vlan: {id: 7}}, {name: vx1, type: vxlan}]"); !Same(got, want) {
		t.Errorf("got %s, want %s", words(t, got), words(t, want))
	}
}

func TestStateCompare_Fields_ComparedOneByOne(t *testing.T) {
	a := document(
		t,
		"{description: x, interfaces: [{name: a, mtu: 1500}, {name: b, mtu: null}], routes: {config: [{destination: 10.0.0.0/8}, {destination: 10.1.0.0/16}]}}",
	)
	b := document(t, "{interfaces: [{name: b}, {name: a, mtu: 1500}], routes: {config: [{destination: 10.1.0.0/16}, {destination: 10.0.0.0/8}]}}")
	if !Same(a, b) || !Same(nil, map[string]any{}) {
		t.Error("states with the same fields differ")
	}
	for _, other := range []string{"", "interfaces: 7", "{interfaces: [{name: b}, {name: a, mtu: 9000}], routes: {config: [{destination: 10.1.0.0/16}, {destination: 10.0.0.0/8}]}}"} {
		if Same(a, document(t, other)) || Same(document(t, other), a) {
			t.Errorf("%s is like %s", other, words(t, a))
		}
	}
	got, err := Minus(a, document(t, "{interfaces: [{name: a, mtu: 9000}], routes: {config: [{destination: 10.0.0.0/8}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "difference", got, "{interfaces: [{name: a, mtu: 1500}, {name: b}], routes: {config: [{destination: 10.1.0.0/16}]}}")
}
