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

// partsOf returns the parts of policies a, b and so on, and of fields set by hand, with the
// hashes of entries left out: "x y | z".
func partsOf(t *testing.T, manual string, policies ...string) string {
	t.Helper()
	var shares []Share
	for n, desired := range policies {
		shares = append(shares, shareOf(t, string(rune('a'+n)), 0, desired))
	}
	a, err := Aggregate(shares, document(t, manual))
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, part := range a.Parts(func(owner string) string { return owner }) {
		paths := part.Paths
		for n, path := range paths {
			if entry, _, ok := strings.Cut(path, " #"); ok {
				paths[n] = entry + "]"
			}
		}
		parts = append(parts, strings.Join(paths, " "))
	}
	return strings.Join(parts, " | ")
}

func TestPolicyParts_OverlappingPolicies_OnePart(t *testing.T) {
	const one = "interfaces: [{name: eth1, mtu: 9000}]"
	for _, tc := range []struct{ name, manual, a, b, want string }{
		{"two interfaces", "", one, "interfaces: [{name: eth2, mtu: 9000}]", "interfaces[eth1] | interfaces[eth2]"},
		{"one interface", "", one, "interfaces: [{name: eth1, description: x}]", ""},
		{"all of one policy", "", "{interfaces: [{name: eth1, mtu: 1}, {name: eth2, mtu: 1}], dns-resolver: {config: {}}}", "interfaces: [{name: eth3, mtu: 1}]", "dns-resolver interfaces[eth1] interfaces[eth2] | interfaces[eth3]"},
		{"a field that one does not get", "", one, "interfaces: [{name: eth1, mtu: 1400}, {name: eth2, mtu: 1400}]", ""},
		{"the same field", "", one, "interfaces: [{name: eth1, mtu: 9000}, {name: eth2, mtu: 1400}]", ""},
		{"by hand", one, "interfaces: [{name: eth2, mtu: 1}]", "interfaces: [{name: eth3, mtu: 1}]", "interfaces[eth1] | interfaces[eth2] | interfaces[eth3]"},
		{"a port", "", one, "interfaces: [{name: br1, type: linux-bridge, bridge: {port: [{name: eth1}]}}]", ""},
		{"a port of a bond", "", one, "interfaces: [{name: bond1, type: bond, link-aggregation: {port: [eth1]}}]", ""},
		{"a port that another bridge has", "", "interfaces: [{name: br1, bridge: {port: [{name: eth9}]}}]", "interfaces: [{name: br2, bridge: {port: [{name: eth9}]}}]", ""},
		{"a controller", "", "interfaces: [{name: br1, type: linux-bridge}]", "interfaces: [{name: eth1, controller: br1}]", ""},
		{"a base", "", one, "interfaces: [{name: eth1.5, type: vlan, vlan: {id: 5, base-iface: eth1}}]", ""},
		{"the other end", "", "interfaces: [{name: v1, type: veth, veth: {peer: v2}}]", "interfaces: [{name: v2, mtu: 1400}]", ""},
		{"a route through it", "", one, "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth1}]}", ""},
		{"a route through another", "", one, "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth2}]}", "interfaces[eth1] | routes.config[10.0.0.0/8]"},
		{"one destination", "", "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth1, metric: 1}]}", "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth2, table-id: 254}]}", ""},
		{"routes of any device that go", "", "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth1}]}", "routes: {config: [{destination: 10.1.0.0/16, state: absent}]}", ""},
		{"a table", "", "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth1, table-id: 7}]}", "route-rules: {config: [{ip-to: 10.1.0.0/16, route-table: 7}]}", ""},
		{"the main table", "", "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth1, table-id: 254}]}", "route-rules: {config: [{ip-to: 10.1.0.0/16, route-table: 254}]}", "routes.config[10.0.0.0/8] | route-rules.config[10.1.0.0/16]"},
		{"the table of a VRF", "", "interfaces: [{name: vrf1, type: vrf, vrf: {port: [], route-table-id: 7}}]", "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth2, table-id: 7}]}", ""},
		{"a rule of a device", "", one, "route-rules: {config: [{iif: eth1, route-table: 9}]}", ""},
	} {
		if got := partsOf(t, tc.manual, tc.a, tc.b); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := partsOf(t, "", one, "interfaces: [{name: eth2, mtu: 1}]", "interfaces: [{name: br1, bridge: {port: [eth1, eth2]}}]", "dns-resolver: {config: {}}"); got != "interfaces[br1] interfaces[eth1] interfaces[eth2] | dns-resolver" {
		t.Errorf("a policy that meets two others: %q", got)
	}
}

// TestPolicyParts_Union_EqualsDesiredState: each field is in one part, together with all that its owner
// has, and nothing is left.
func TestPolicyParts_Union_EqualsDesiredState(t *testing.T) {
	divided := 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 5))
		a, err := Aggregate(randomShares(r), randomState(r))
		if err != nil {
			t.Fatal(err)
		}
		parts := a.Parts(func(owner string) string { return owner })
		if parts == nil {
			continue
		}
		divided++
		documents, rest, err := Split(a.Desired, parts)
		if err != nil || rest != nil || len(documents) != len(parts) {
			t.Fatalf("seed %d: %d parts of %d, and the rest %s (%v)", seed, len(documents), len(parts), words(t, rest), err)
		}
		all := map[string]string{}
		for _, document := range documents {
			for path, text := range values(t, document) {
				if _, twice := all[path]; twice {
					t.Errorf("seed %d: %s is in two parts", seed, path)
				}
				all[path] = text
			}
		}
		for path, text := range values(t, a.Desired) {
			if all[path] != text {
				t.Errorf("seed %d: %s is %q in its part, want %q", seed, path, all[path], text)
			}
		}
		for _, one := range a.asked {
			in := map[int]bool{}
			for _, path := range a.About(one.owner) {
				if at := slices.IndexFunc(parts, func(part nmstate.Part) bool { return slices.Contains(part.Paths, path) }); at >= 0 {
					in[at] = true
				}
			}
			if len(in) > 1 {
				t.Errorf("seed %d: %s is in %d parts: %q", seed, one.owner, len(in), parts)
			}
		}
	}
	if divided < 10 {
		t.Errorf("only %d states have parts", divided)
	}
}

func TestPolicyParts_Unowned_InRest(t *testing.T) {
	desired := document(t, "{interfaces: [{name: eth1, mtu: 1}, {name: eth2, mtu: 2}], dns-resolver: {config: {}}}")
	parts, rest, err := Split(desired, []nmstate.Part{{Paths: []string{"interfaces[eth2]"}}, {Paths: []string{"interfaces[eth3]"}}})
	if err != nil || len(parts) != 2 || len(parts[1]) != 0 {
		t.Fatalf("%v, %v", parts, err)
	}
	same(t, "the part", parts[0], "interfaces: [{name: eth2, mtu: 2}]")
	same(t, "the rest", rest, "{interfaces: [{name: eth1, mtu: 1}], dns-resolver: {config: {}}}")
	if _, _, err := Split(document(t, "interfaces: [{mtu: 1}]"), nil); err == nil {
		t.Error("a state without a name is divided")
	}
}

// TestPolicyParts_MakerOfInterface_HoldsForUsers: who asks for the interface itself makes it.
func TestPolicyParts_MakerOfInterface_HoldsForUsers(t *testing.T) {
	const matched = "interfaces: [{name: br1, type: linux-bridge, mtu: 1400, made-by: others}]"
	for _, tc := range []struct{ name, manual, other, want string }{
		{"alone", "", "interfaces: []", matched},
		{"with a field of another", "", "interfaces: [{name: br1, description: x}]", "interfaces: [{name: br1, type: linux-bridge, mtu: 1400, description: x, made-by: others}]"},
		{"with another one that wants it", "", "interfaces: [{name: br1, type: linux-bridge}]", "interfaces: [{name: br1, type: linux-bridge, mtu: 1400}]"},
		{"with another one that matches it", "", strings.Replace(matched, "1400", "1400, description: x", 1), "interfaces: [{name: br1, type: linux-bridge, mtu: 1400, description: x, made-by: others}]"},
		{"by hand", "interfaces: [{name: br1, type: linux-bridge}]", "interfaces: []", "interfaces: [{name: br1, type: linux-bridge, mtu: 1400}]"},
	} {
		for _, shares := range [][]Share{
			{shareOf(t, "a", 0, matched), shareOf(t, "b", 0, tc.other)}, {shareOf(t, "b", 0, matched), shareOf(t, "a", 0, tc.other)},
		} {
			a, err := Aggregate(shares, document(t, tc.manual))
			if err != nil {
				t.Fatal(err)
			}
			same(t, tc.name, a.Desired, tc.want)
		}
	}
}
