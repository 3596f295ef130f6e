// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// over returns the target of a document on a host.
func over(t *testing.T, current, desired string) *target.Target {
	t.Helper()
	to, err := target.Resolve(parse(t, desired), parse(t, current))
	if err != nil {
		t.Fatalf("%s: %v", desired, err)
	}
	return to
}

func TestUpstream_ResolverLists_Merged(t *testing.T) {
	const current = "dns-resolver: {config: {server: [192.0.2.53], search: [old.example], options: [rotate, other]}}"
	for desired, want := range map[string]document.Resolver{
		"{search: [a.example]}":       {Server: []string{"192.0.2.53"}, Search: []string{"a.example"}, Options: []string{"rotate", "other"}},
		"{server: [192.0.2.54]}":      {Server: []string{"192.0.2.54"}, Search: []string{"old.example"}, Options: []string{"rotate", "other"}},
		"{search: []}":                {Server: []string{"192.0.2.53"}, Search: []string{}, Options: []string{"rotate", "other"}},
		"{options: [ndots:2, other]}": {Server: []string{"192.0.2.53"}, Search: []string{"old.example"}, Options: []string{"ndots:2", "other"}},
		"{server: ['2001:DB8:0::1', '::fFfF:192.0.2.1', 'FE80::1%eth0']}": {
			Server: []string{"2001:db8::1", "::ffff:192.0.2.1", "fe80::1%eth0"}, Search: []string{"old.example"}, Options: []string{"rotate", "other"},
		},
		"{}":                                {Server: []string{}, Search: []string{}, Options: []string{}},
		"{server: [], search: [b.example]}": {Server: []string{}, Search: []string{"b.example"}, Options: []string{"rotate", "other"}},
	} {
		to := over(t, current, "dns-resolver: {config: "+desired+"}")
		if diff := cmp.Diff(&want, to.Resolver); diff != "" {
			t.Errorf("%s (-want +got):\n%s", desired, diff)
		}
	}
	if to := over(t, current, "dns-resolver: {running: {server: []}}"); to.Resolver != nil {
		t.Errorf("a document without a configuration changes it: %v", to.Resolver)
	}
}

func destinations(routes []document.Route) string {
	var list []string
	for _, r := range routes {
		list = append(list, r.Destination)
	}
	return strings.Join(list, " ")
}

func TestUpstream_RouteEntries_MatchNmstate(t *testing.T) {
	const current = `
interfaces:
- {name: eth0, type: ethernet, state: up}
- {name: eth1, type: ethernet, state: up, controller: r}
- {name: r, type: vrf, state: up, vrf: {port: [eth1], route-table-id: 100}}
routes:
  config:
  - {destination: 198.51.100.0/24, next-hop-interface: eth0}
  - {destination: 203.0.113.7/32, next-hop-interface: eth0, next-hop-address: 198.51.100.1}
  - {destination: 192.0.2.0/24, next-hop-interface: eth1, table-id: 100}
  - {destination: 10.0.0.0/8, route-type: blackhole}`
	for entry, want := range map[string]string{
		"{state: absent}": "",
		"{state: absent, next-hop-address: 0.0.0.0, next-hop-interface: eth0}":                 "203.0.113.7/32 192.0.2.0/24 10.0.0.0/8",
		"{state: absent, destination: 203.0.113.7}":                                            "198.51.100.0/24 192.0.2.0/24 10.0.0.0/8",
		"{state: absent, vrf-name: r}":                                                         "198.51.100.0/24 203.0.113.7/32 10.0.0.0/8",
		"{state: absent, route-type: blackhole, next-hop-interface: lo}":                       "198.51.100.0/24 203.0.113.7/32 192.0.2.0/24",
		"{state: ignore, destination: 172.16.0.0/12}":                                          "198.51.100.0/24 203.0.113.7/32 192.0.2.0/24 10.0.0.0/8",
		"{destination: 10.0.0.0/8, route-type: blackhole, next-hop-interface: lo, metric: -1}": "198.51.100.0/24 203.0.113.7/32 192.0.2.0/24 10.0.0.0/8",
	} {
		if got := destinations(over(t, current, "routes: {config: ["+entry+"]}").Routes); got != want {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
	}
	to := over(t, current, "routes: {config: [{destination: 172.16.0.0/12, next-hop-interface: eth1, vrf-name: r}]}")
	want := document.Route{Destination: "172.16.0.0/12", Interface: "eth1", Metric: new(int64(0)), Table: new(int64(100))}
	if diff := cmp.Diff(want, to.Routes[len(to.Routes)-1]); diff != "" {
		t.Errorf("a route of a VRF (-want +got):\n%s", diff)
	}
}

func TestUpstream_RouteMetricChange_UnnamedAttributesKept(t *testing.T) {
	const current = `
interfaces: [{name: eth0, type: ethernet, state: up}]
routes:
  config:
  - {destination: 198.51.100.0/24, next-hop-interface: eth0, metric: 5, mtu: 1400, quickack: true}
  - {destination: 203.0.113.0/24, next-hop-interface: eth0, metric: 5}`
	for entries, want := range map[string]string{
		"{destination: 198.51.100.0/24, next-hop-interface: eth0, metric: 5}":                                                                    "[5 mtu 1400][5]",
		"{destination: 198.51.100.0/24, next-hop-interface: eth0, metric: 6}":                                                                    "[5][6]",
		"{destination: 203.0.113.0/24, next-hop-interface: eth0, metric: 6, advmss: 99}":                                                         "[5 mtu 1400][6]",
		"{destination: 203.0.113.0/24, next-hop-interface: eth0, metric: 6}, {destination: 203.0.113.0/24, next-hop-interface: eth0, metric: 5}": "[5 mtu 1400][5][6]",
		"{state: absent, mtu: 1400}":       "[5]",
		"{state: absent, quickack: false}": "[5 mtu 1400]",
	} {
		got := ""
		for _, r := range over(t, current, "routes: {config: ["+entries+"]}").Routes {
			got += fmt.Sprintf("[%d", *r.Metric)
			if r.MTU != nil {
				got += fmt.Sprintf(" mtu %d", *r.MTU)
			}
			got += "]"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", entries, got, want)
		}
	}
}

func TestUpstream_MACAddressFromHardware_Copied(t *testing.T) {
	const current = `
interfaces:
- {name: eth1, type: ethernet, state: up, mac-address: "02:00:00:00:00:99", permanent-mac-address: "02:00:00:00:00:01"}
- {name: br0, type: linux-bridge, state: up, mac-address: "02:00:00:00:00:07", bridge: {port: []}}`
	to := over(t, current, "interfaces: [{name: br0, copy-mac-from: eth1}]")
	if got := to.Interfaces[0]; got.MACAddress != "02:00:00:00:00:01" || got.CopyMACFrom != "" || to.Document.Interfaces[0].MACAddress != got.MACAddress {
		t.Errorf("%+v, of %+v", got, to.Document.Interfaces)
	}
}

func TestUpstream_AbsentRuleWithoutPrefix_MatchesPrefixless(t *testing.T) {
	const current = `
route-rules:
  config:
  - {family: ipv4, ip-to: 192.0.2.9/32, priority: 1, route-table: 50}
  - {family: ipv4, ip-from: 192.0.2.0/24, ip-to: 203.0.113.0/24, priority: 2, route-table: 50}
  - {family: ipv6, ip-from: "2001:db8::/32", priority: 3, route-table: 50}`
	for entry, want := range map[string]string{
		`{state: absent, ip-from: "", route-table: 50}`: "[2][3]", `{state: absent, ip-to: "", route-table: 50}`: "[1][2]",
		`{state: absent, ip-from: "", family: ipv6}`: "[1][2][3]", `{state: absent, ip-to: "", ip-from: "2001:db8::/32"}`: "[1][2]",
	} {
		got := ""
		for _, rule := range over(t, current, "route-rules: {config: ["+entry+"]}").Rules {
			got += fmt.Sprintf("[%d]", *rule.Priority)
		}
		if got != want {
			t.Errorf("%s leaves %s, want %s", entry, got, want)
		}
	}
}

func TestUpstream_AbsentRuleWithoutFields_MatchesAll(t *testing.T) {
	if to := over(t, host, "route-rules: {config: [{state: absent}]}"); len(to.Rules) != 0 {
		t.Errorf("rules are left: %+v", to.Rules)
	}
}

// TestUpstream_LastVLANRemoved_BridgeFilterOff: an empty vlan does not give the bridge a VLAN of
// its own. It does not become the VLAN of new ports either, on a bridge that goes on filtering.
func TestUpstream_LastVLANRemoved_BridgeFilterOff(t *testing.T) {
	const current = `
interfaces:
- {name: eth1, type: ethernet, state: up, controller: br0}
- {name: eth2, type: ethernet, state: up, controller: br0}
- {name: eth3, type: ethernet, state: up}
- name: br0
  type: linux-bridge
  state: up
  bridge:
    port:
    - {name: eth1, vlan: {mode: access, tag: 5}}
    - {name: eth2, vlan: {mode: access, tag: 1}}`
	for ports, off := range map[string]bool{
		"[{name: eth1, vlan: {}}, {name: eth2, vlan: {}}]": true,
		"[{name: eth1, vlan: {}}, {name: eth2}]":           true,
		"[{name: eth1, vlan: {}}, {name: eth3}]":           true,
		"[{name: eth1}, {name: eth2, vlan: {}}]":           false,
		"[{name: eth1}, {name: eth2}]":                     false,
		"[{name: eth2}]":                                   false,
		"[]":                                               false,
		"[{name: eth1, vlan: {}}, {name: eth2, vlan: {mode: access, tag: 7}}]": false,
		"[{name: eth2, vlan: {}}]": true,
	} {
		to := over(t, current, "interfaces: [{name: br0, bridge: {port: "+ports+"}}]")
		if got := len(to.Unfiltered) > 0; got != off {
			t.Errorf("%s: the filter is turned off: %v", ports, got)
		}
	}
}

func TestUpstream_RuleWithoutPriority_FirstFreeTaken(t *testing.T) {
	const current = `
route-rules:
  config:
  - {family: ipv4, ip-from: 192.0.2.0/24, priority: 30001, route-table: 50}
  - {family: ipv6, ip-from: "2001:db8::/32", priority: 7, route-table: 50}
  - {family: ipv4, ip-from: 198.51.100.0/24, priority: 40000, route-table: 50}`
	for desired, want := range map[string]string{
		"{ip-to: 192.0.2.0/24}": "30000",
		"{ip-to: 192.0.2.0/24}, {ip-to: '2001:db8::/32'}, {ip-to: 1.1.1.1}": "30000 30002 30003",
		"{ip-to: 192.0.2.0/24}, {ip-to: 192.0.2.0/24}":                      "30000 30000",
		// The same rule is there with another priority.
		"{ip-from: 192.0.2.7/24, route-table: 50}, {ip-from: '2001:db8::/32', route-table: 50}, {ip-from: 198.51.100.0/24, route-table: 50}": "30001 7 40000",
		"{ip-to: 192.0.2.0/24}, {ip-to: 1.1.1.1, priority: 30000}, {ip-to: 2.2.2.2, priority: 5}":                                            "30002 30000 5",
		// What a document deletes may be deleted and added again.
		"{state: absent}, {ip-from: 192.0.2.0/24, route-table: 50}": "none 30001",
	} {
		to := over(t, current, "route-rules: {config: ["+desired+"]}")
		var got []string
		for _, rule := range to.Document.RouteRules.Config {
			if rule.Priority == nil {
				got = append(got, "none")
				continue
			}
			got = append(got, fmt.Sprint(*rule.Priority))
		}
		if words := strings.Join(got, " "); words != want {
			t.Errorf("%s: the priorities are %s, want %s", desired, words, want)
		}
	}
}

func TestUpstream_PrioritylessRulePresent_Unchanged(t *testing.T) {
	const current = "route-rules: {config: [{family: ipv4, ip-from: 192.0.2.0/24, priority: 30001, route-table: 50}]}"
	to := over(t, current, "route-rules: {config: [{ip-from: 192.0.2.0/24, route-table: 50}]}")
	if len(to.Rules) != 1 || *to.Rules[0].Priority != 30001 {
		t.Errorf("the rules are %+v", to.Rules)
	}
}
