// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// shareOf is a share of the policy NodeNetConfPolicy/<name>.
func shareOf(t *testing.T, name string, priority int32, desired string) Share {
	t.Helper()
	return Share{Policy: nmstate.Reference{Kind: "NodeNetConfPolicy", Name: name}, Priority: priority, Desired: document(t, desired)}
}

func TestAggregate_SameField_HigherPriorityWins(t *testing.T) {
	for _, tc := range []struct {
		name, manual, a, b string
		priorityB          int32
		want               string
		conflicts          []string
	}{
		{
			"fields of one interface", "", "interfaces: [{name: eth1, mtu: 9000}]", "interfaces: [{name: eth1, ipv4: {enabled: false}}]", 0,
			"interfaces: [{name: eth1, mtu: 9000, ipv4: {enabled: false}}]", nil,
		},
		{
			"the name decides", "", "interfaces: [{name: eth1, mtu: 9000}]", "interfaces: [{name: eth1, mtu: 1500}]", 0,
			"interfaces: [{name: eth1, mtu: 9000}]",
			[]string{"interfaces[eth1].mtu: NodeNetConfPolicy/a has the field, and not NodeNetConfPolicy/b"},
		},
		{
			"the priority decides", "", "interfaces: [{name: eth1, mtu: 9000}]", "interfaces: [{name: eth1, mtu: 1500}]", 1,
			"interfaces: [{name: eth1, mtu: 1500}]",
			[]string{"interfaces[eth1].mtu: NodeNetConfPolicy/b has the field, and not NodeNetConfPolicy/a"},
		},
		{
			"the same value", "", "interfaces: [{name: eth1, mtu: 9000}]", "interfaces: [{name: eth1, mtu: 9000}]", 0,
			"interfaces: [{name: eth1, mtu: 9000}]", nil,
		},
		{
			"by hand", "interfaces: [{name: eth1, mtu: 1400}]", "interfaces: [{name: eth1, mtu: 9000, ipv4: {enabled: false}}]", "interfaces: [{name: eth2}]", 9,
			"interfaces: [{name: eth1, mtu: 1400, ipv4: {enabled: false}}, {name: eth2}]",
			[]string{"interfaces[eth1].mtu: manual has the field, and not NodeNetConfPolicy/a"},
		},
		{
			"a list is one field", "", "interfaces: [{name: eth1, ipv4: {address: [{ip: 192.0.2.1}]}}]", "interfaces: [{name: eth1, ipv4: {enabled: true, address: [{ip: 192.0.2.2}]}}]", 0,
			"interfaces: [{name: eth1, ipv4: {enabled: true, address: [{ip: 192.0.2.1}]}}]",
			[]string{"interfaces[eth1].ipv4.address: NodeNetConfPolicy/a has the field, and not NodeNetConfPolicy/b"},
		},
		{
			"routes are put together", "", "routes: {config: [{destination: 10.0.0.0/8}, {destination: 10.1.0.0/16}]}", "routes: {config: [{destination: 10.2.0.0/16}, {destination: 10.0.0.0/8}]}", 0,
			"routes: {config: [{destination: 10.0.0.0/8}, {destination: 10.1.0.0/16}, {destination: 10.2.0.0/16}]}", nil,
		},
		{
			"rules are put together", "", "route-rules: {config: [{ip-to: 10.0.0.0/8}]}", "route-rules: {config: [{ip-to: 10.0.0.0/8}, {ip-from: 10.0.0.0/8}]}", 0,
			"route-rules: {config: [{ip-to: 10.0.0.0/8}, {ip-from: 10.0.0.0/8}]}", nil,
		},
		{
			"a route changes within one policy", "", "routes: {config: [{state: absent, next-hop-interface: eth1}, {destination: 10.0.0.0/8, next-hop-interface: eth1}]}", "", 0,
			"routes: {config: [{state: absent, next-hop-interface: eth1}, {destination: 10.0.0.0/8, next-hop-interface: eth1}]}", nil,
		},
		{
			"a route that another removes", "", "routes: {config: [{state: absent, next-hop-interface: eth1, table-id: 0}]}", "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth1}, {destination: 10.0.0.0/8, next-hop-interface: eth1, table-id: 7}]}", 0,
			"routes: {config: [{state: absent, next-hop-interface: eth1, table-id: 0}, {destination: 10.0.0.0/8, next-hop-interface: eth1, table-id: 7}]}",
			[]string{"routes.config[10.0.0.0/8"},
		},
		{
			"a route that another adds", "", "routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth1}]}", "routes: {config: [{state: absent, next-hop-interface: eth1}, {state: absent, next-hop-interface: eth2}]}", 0,
			"routes: {config: [{destination: 10.0.0.0/8, next-hop-interface: eth1}, {state: absent, next-hop-interface: eth2}]}",
			[]string{"routes.config[eth1"},
		},
		{
			"absent and fields", "", "interfaces: [{name: eth1, state: absent}]", "interfaces: [{name: eth1, mtu: 1500, ipv4: {enabled: true}}]", 0,
			"interfaces: [{name: eth1, state: absent}]",
			[]string{"interfaces[eth1].state: NodeNetConfPolicy/a"},
		},
		{
			"fields and absent", "", "interfaces: [{name: eth1, mtu: 1500}]", "interfaces: [{name: eth1, state: absent}]", 0,
			"interfaces: [{name: eth1, mtu: 1500}]",
			[]string{"interfaces[eth1].state: NodeNetConfPolicy/a"},
		},
		{
			"up and nothing", "", "interfaces: [{name: eth1, mtu: 1500}]", "interfaces: [{name: eth1, state: up}]", 0,
			"interfaces: [{name: eth1, mtu: 1500, state: up}]", nil,
		},
		{
			"fields by hand, and down", "interfaces: [{name: eth1, mtu: 1500}]", "interfaces: [{name: eth1, state: down}]", "interfaces: [{name: eth1, state: up, accept-all-mac-addresses: true}]", 0,
			"interfaces: [{name: eth1, mtu: 1500, state: down}]",
			[]string{"interfaces[eth1].state: NodeNetConfPolicy/a has the field, and not NodeNetConfPolicy/b"},
		},
		{
			"fields by hand, and absent", "interfaces: [{name: eth1, mtu: 1500}]", "interfaces: [{name: eth1, state: absent}]", "", 0,
			"interfaces: [{name: eth1, mtu: 1500}]",
			[]string{"interfaces[eth1].state: manual"},
		},
		{
			"two types", "", "interfaces: [{name: x, type: bond}]", "interfaces: [{name: x, type: vlan, vlan: {id: 7}}]", 0,
			"interfaces: [{name: x, type: bond}]",
			[]string{"interfaces[x].type: NodeNetConfPolicy/a"},
		},
		{
			"a type that comes later", "", "interfaces: [{name: x, mtu: 1500}]", "interfaces: [{name: x, type: vlan, vlan: {id: 7}}]", 0,
			"interfaces: [{name: x, mtu: 1500, type: vlan, vlan: {id: 7}}]", nil,
		},
		{
			"ethernet and veth", "", "interfaces: [{name: x, type: ethernet}]", "interfaces: [{name: x, type: veth, mtu: 1500}]", 0,
			"interfaces: [{name: x, mtu: 1500, type: ethernet}]",
			[]string{"interfaces[x].type: NodeNetConfPolicy/a"},
		},
		{
			"a resolver without anything", "", "dns-resolver: {config: {}}", "dns-resolver: {config: {server: [192.0.2.53]}}", 0,
			"dns-resolver: {config: {}}",
			[]string{"dns-resolver.config.server: NodeNetConfPolicy/a"},
		},
		{
			"a resolver, and one without anything", "", "dns-resolver: {config: {server: [192.0.2.53]}}", "dns-resolver: {config: {}}", 0,
			"dns-resolver: {config: {server: [192.0.2.53]}}",
			[]string{"dns-resolver.config: NodeNetConfPolicy/a"},
		},
		{
			"null and descriptions", "", "{description: x, interfaces: [{name: a, mtu: null}]}", "{description: y, interfaces: [{name: a, mtu: 1500}]}", 0,
			"interfaces: [{name: a, mtu: 1500}]", nil,
		},
		{
			"fields that nobody knows", "", "{hsr: {a: 1}, interfaces: [{name: a, 802.1x: {b: 1}}]}", "{hsr: {a: 2, c: 3}, interfaces: [{name: a, 802.1x: {b: 2}}]}", 0,
			"{hsr: {a: 1, c: 3}, interfaces: [{name: a, 802.1x: {b: 1}}]}",
			[]string{"hsr.a: NodeNetConfPolicy/a", "interfaces[a].\"802.1x\".b: NodeNetConfPolicy/a"},
		},
		{
			"templates in typed places", "", "interfaces: [{name: a, mtu: '{{ capture.a.mtu }}'}]", "", 0,
			"interfaces: [{name: a, mtu: '{{ capture.a.mtu }}'}]", nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			shares := []Share{shareOf(t, "b", tc.priorityB, tc.b), shareOf(t, "a", 0, tc.a)}
			got, err := Aggregate(shares, document(t, tc.manual))
			if err != nil {
				t.Fatal(err)
			}
			same(t, "desired", got.Desired, tc.want)
			if len(got.Conflicts) != len(tc.conflicts) {
				t.Fatalf("conflicts are %v, want %q", got.Conflicts, tc.conflicts)
			}
			for i, want := range tc.conflicts {
				if !strings.Contains(got.Conflicts[i].String(), want) {
					t.Errorf("conflict is %q, want %q", got.Conflicts[i], want)
				}
			}
		})
	}
}

func TestAggregate_UnreadablePolicy_OthersUnaffected(t *testing.T) {
	shares := []Share{shareOf(t, "a", 9, "interfaces: [{name: eth1, mtu: 1500}, {mtu: 7}]"), shareOf(t, "b", 0, "interfaces: [{name: eth1, mtu: 9000}]")}
	got, err := Aggregate(shares, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "desired", got.Desired, "interfaces: [{name: eth1, mtu: 9000}]")
	if len(got.Refused) != 1 || got.Refused[0].Policy.Name != "a" || !strings.Contains(got.Refused[0].Err.Error(), "interfaces[1].name") {
		t.Errorf("refused are %v", got.Refused)
	}
	if _, err := Aggregate(shares, document(t, "interfaces: 7")); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("a manual state that can't be read: got %v", err)
	}
}

func TestAggregate_Owners_Summarized(t *testing.T) {
	a, err := Aggregate([]Share{
		shareOf(
			t,
			"a",
			0,
			"{interfaces: [{name: br1, type: linux-bridge, mtu: 9000, bridge: {options: {stp: {enabled: false}}}}, {name: eth1, mtu: 9000}], routes: {config: [{destination: 10.0.0.0/8}]}}",
		),
		shareOf(t, "b", 0, "{interfaces: [{name: eth1, ipv4: {enabled: true, dhcp: false}}], dns-resolver: {config: {server: []}}}"),
	}, document(t, "interfaces: [{name: eth2, mtu: 1500}]"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	owners, more := a.Summary(100)
	for _, o := range owners {
		got = append(got, o.Path+" "+strings.TrimPrefix(o.Owner, "NodeNetConfPolicy/"))
	}
	want := []string{
		"dns-resolver.config b",
		"interfaces[br1] a",
		"interfaces[eth1].ipv4 b",
		"interfaces[eth1].mtu a",
		"interfaces[eth1].name a",
		"interfaces[eth2] manual",
		"routes.config a",
	}
	if !slices.Equal(got, want) || more != 0 {
		t.Errorf("got %q and %d more, want %q", got, more, want)
	}
	if owners, more := a.Summary(2); len(owners) != 2 || more != len(want)-2 {
		t.Errorf("of at most 2: got %d and %d more", len(owners), more)
	}
}

func TestAggregate_ManualAndPolicyFields_Distinguished(t *testing.T) {
	shares := []Share{
		shareOf(t, "a", 0, "{interfaces: [{name: eth1, mtu: 9000, ipv4: {enabled: true}, state: down}], routes: {config: [{destination: 10.0.0.0/8}]}}"),
	}
	first, err := Aggregate(shares, nil)
	if err != nil {
		t.Fatal(err)
	}
	edited := document(
		t,
		"{interfaces: [{name: eth1, mtu: 1400, ipv4: {enabled: true}, state: down}, {name: eth7}], routes: {config: [{destination: 10.0.0.0/8}, {destination: 10.9.0.0/16}]}}",
	)
	manual, err := ManualPart(edited, first.FromPolicies)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "manual", manual, "{interfaces: [{name: eth1, mtu: 1400}, {name: eth7}], routes: {config: [{destination: 10.9.0.0/16}]}}")
	second, err := Aggregate([]Share{shareOf(t, "a", 0, "interfaces: [{name: eth1, mtu: 8000, ipv4: {enabled: false}, state: down}]")}, manual)
	if err != nil {
		t.Fatal(err)
	}
	same(
		t,
		"next",
		second.Desired,
		"{interfaces: [{name: eth1, mtu: 1400, ipv4: {enabled: false}, state: down}, {name: eth7}], routes: {config: [{destination: 10.9.0.0/16}]}}",
	)
}

// randomState is a state of few interfaces and values, so that owners meet.
func randomState(r *rand.Rand) map[string]any {
	var list []any
	for i := range 3 {
		if r.IntN(2) == 0 {
			continue
		}
		object := map[string]any{"name": "eth" + strconv.Itoa(i)}
		for key, values := range map[string][]any{
			"mtu": {float64(1500), float64(9000)}, "type": {"bond", "vlan"}, "state": {"up", "down", "absent"},
			"ipv4":  {map[string]any{}, map[string]any{"enabled": true}, map[string]any{"enabled": false, "address": []any{}}, map[string]any{"address": []any{"x"}}},
			"veth.": {map[string]any{"a": map[string]any{"b": "c"}}, "text"},
		} {
			if r.IntN(3) == 0 {
				object[key] = values[r.IntN(len(values))]
			}
		}
		list = append(list, object)
	}
	var entries []any
	for range r.IntN(4) {
		entry := map[string]any{"destination": "10." + strconv.Itoa(r.IntN(2)) + ".0.0/16", "next-hop-interface": "eth" + strconv.Itoa(r.IntN(2))}
		if r.IntN(4) == 0 {
			entry["state"] = "absent"
			delete(entry, "destination")
		}
		entries = append(entries, entry)
	}
	return map[string]any{"interfaces": list, "routes": map[string]any{"config": entries}}
}

func randomShares(r *rand.Rand) []Share {
	var shares []Share
	for i := range 1 + r.IntN(4) {
		shares = append(shares, Share{Policy: nmstate.Reference{Kind: "P", Name: strconv.Itoa(i)}, Priority: int32(r.IntN(2)), Desired: randomState(r)})
	}
	return shares
}

// values are the leaves of a state by path.
func values(t *testing.T, state map[string]any) map[string]string {
	t.Helper()
	leaves, err := parse(state)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, l := range leaves {
		all[l.at] = l.text
	}
	return all
}

// TestAggregate_RandomPolicies_PropertiesHold: whatever policies there are, their order does not matter. Fields
// set by hand are there; each field has the value of its owner; each missing field has a
// conflict; and a second pass over the result changes nothing.
func TestAggregate_RandomPolicies_PropertiesHold(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		shares, manual := randomShares(r), randomState(r)
		before := words(t, []any{shares, manual})
		a, err := Aggregate(shares, manual)
		if err != nil {
			t.Fatal(err)
		}
		if words(t, []any{shares, manual}) != before {
			t.Fatalf("seed %d: the inputs changed", seed)
		}
		r.Shuffle(len(shares), func(i, j int) { shares[i], shares[j] = shares[j], shares[i] })
		if again, _ := Aggregate(shares, manual); words(t, again) != words(t, a) {
			t.Fatalf("seed %d: the order of policies matters:\n%s\n%s", seed, words(t, a), words(t, again))
		}
		checkOwners(t, seed, a, shares, manual)
		left, err := ManualPart(a.Desired, a.FromPolicies)
		if err != nil {
			t.Fatal(err)
		}
		stable, err := Aggregate(shares, left)
		if err != nil {
			t.Fatal(err)
		}
		if words(t, stable.Desired) != words(t, a.Desired) {
			t.Fatalf("seed %d: a second pass changes the state:\n%s\n%s", seed, words(t, a.Desired), words(t, stable.Desired))
		}
	}
}

func checkOwners(t *testing.T, seed uint64, a Aggregation, shares []Share, manual map[string]any) {
	t.Helper()
	wanted := map[string]map[string]string{Manual: values(t, manual)}
	for _, s := range shares {
		wanted[s.Policy.String()] = values(t, s.Desired)
	}
	got := values(t, a.Desired)
	if len(got) != len(a.Owners) {
		t.Fatalf("seed %d: %d fields have %d owners", seed, len(got), len(a.Owners))
	}
	for _, o := range a.Owners {
		if want, ok := wanted[o.Owner][o.Path]; !ok || got[o.Path] != want {
			t.Fatalf("seed %d: %s of %s is %s, want %s", seed, o.Path, o.Owner, got[o.Path], want)
		}
	}
	for path, want := range wanted[Manual] {
		if got[path] != want {
			t.Fatalf("seed %d: %s was set by hand to %s, and is %s", seed, path, want, got[path])
		}
	}
	for owner, fields := range wanted {
		for path, want := range fields {
			lost := func(c Conflict) bool {
				top, whole := strings.CutSuffix(c.Path, ".state")
				if !whole {
					top, whole = strings.CutSuffix(c.Path, ".type")
				}
				return c.Loser == owner && (c.Path == path || whole && strings.HasPrefix(path, top+"."))
			}
			if got[path] != want && !slices.ContainsFunc(a.Conflicts, lost) {
				t.Fatalf("seed %d: %s of %s is lost without a conflict: %v", seed, path, owner, a.Conflicts)
			}
		}
	}
}

// FuzzStatesAreReadAndWrittenAlike: a written state is read back with the same fields.
func FuzzStatesAreReadAndWrittenAlike(f *testing.F) {
	f.Add(
		[]byte(`{"interfaces":[{"name":"a].b","x.y":{"":[1,{}]}}],"routes":{"config":[{"destination":"10.0.0.0/8"}],"running":[]},"dns-resolver":{"config":{}}}`),
	)
	f.Fuzz(func(t *testing.T, data []byte) {
		var value map[string]any
		if json.Unmarshal(data, &value) != nil {
			return
		}
		first, err := parse(value)
		if err != nil {
			return
		}
		written := format(first)
		second, err := parse(written)
		if err != nil {
			t.Fatalf("%s becomes %s: %v", data, words(t, written), err)
		}
		if words(t, format(second)) != words(t, written) {
			t.Errorf("%s becomes %s, and then %s", data, words(t, written), words(t, format(second)))
		}
	})
}
