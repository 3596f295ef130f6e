// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// TestPlanLack_HostFeatureMissing_FoundStateReported has a desired state, and the texts of its differences.
func TestPlanLack_HostFeatureMissing_FoundStateReported(t *testing.T) {
	const found = `
interfaces:
- {name: eth1, type: ethernet, state: up, mtu: 1500, controller: "", ipv4: {enabled: true, address: [{ip: 192.0.2.1, prefix-length: 24}]}, ipv6: {enabled: true, address: []}}
- {name: eth2, type: ethernet, state: down, mtu: 1500, controller: br0}
- {name: br0, type: linux-bridge, state: up, mtu: 1500, bridge: {options: {stp: {enabled: false}}, port: [{name: eth2, stp-path-cost: 100}]}}
routes: {config: [{destination: 203.0.113.0/24, next-hop-interface: eth1}]}
dns-resolver: {config: {server: [192.0.2.53], search: [], options: []}}`
	for desired, want := range map[string]string{
		"interfaces: [{name: eth1, mtu: 1450}]":                                                          `eth1.mtu: expected 1450, found 1500`,
		"interfaces: [{name: eth1, ipv4: {address: [{ip: 192.0.2.7, prefix-length: 24}]}}]":              `eth1: expected no 192.0.2.1/24, found it; eth1: expected 192.0.2.7/24, found 192.0.2.1/24`,
		"interfaces: [{name: eth1, ipv6: {enabled: false}}]":                                             `eth1.ipv6.enabled: expected false, found true`,
		"interfaces: [{name: eth2, controller: br0}]":                                                    `eth2.state: expected up, found down`,
		"interfaces: [{name: eth1, controller: br0, ipv4: {enabled: false}}, {name: eth2, state: down}]": `eth1.controller: expected "br0", found ""`,
		"interfaces: [{name: br0, bridge: {options: {stp: {enabled: true}}}}]":                           `br0.bridge.options.stp.enabled: expected true, found false`,
		"interfaces: [{name: br0, bridge: {port: [{name: eth2, stp-path-cost: 5}]}}]":                    `br0.bridge.port: expected [{"name":"eth2","stp-path-cost":5}], found [{"name":"eth2","stp-path-cost":100}]`,
		"interfaces: [{name: d0, type: dummy}]":                                                          `d0: expected of type dummy, found none`,
		"routes: {config: [{destination: 198.51.100.0/24, next-hop-interface: eth1}]}":                   `expected the route 198.51.100.0/24 dev eth1 table 254 metric 0, found none`,
		"routes: {config: [{state: absent, destination: 203.0.113.0/24}]}":                               `expected no route 203.0.113.0/24 dev eth1 table 254 metric 0, found it`,
		"dns-resolver: {config: {server: [192.0.2.54]}}":                                                 `dns-resolver.config: expected {"server":["192.0.2.54"],"search":[],"options":[]}, found {"server":["192.0.2.53"],"search":[],"options":[]}`,
	} {
		now := parse(t, found)
		var lacks []string
		for _, step := range plan.Between(now, resolve(t, parse(t, desired), now)) {
			lacks = append(lacks, plan.Lack(now, step))
		}
		if got := strings.Join(lacks, "; "); !strings.Contains(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", desired, got, want)
		}
	}
}

// TestPlanLack_EachStepKind_MissingReported: no text is empty, and none is of the source.
func TestPlanLack_EachStepKind_MissingReported(t *testing.T) {
	for _, step := range plan.Kinds() {
		if got := plan.Lack(&document.State{}, step); !strings.Contains(got, "expected") || strings.Contains(got, "%!") || strings.Contains(got, "nil") {
			t.Errorf("%T: %q", step, got)
		}
	}
}
