// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/store/rows/nmstate"
)

const currentState = `
interfaces:
- {name: eth2, type: ethernet}
- {name: eth1, type: ethernet}
- {name: bond0, type: bond}
- {name: bond0.7, type: vlan, vlan: {base-iface: bond0, id: 7}}
- {name: docker0, type: ethernet, state: ignore}
`

func TestInstantiate_MatchRules_OneStatePerMatch(t *testing.T) {
	const template = "interfaces: [{mtu: 9000}]"
	for _, tc := range []struct {
		name, desired string
		rules         []nmstate.MatchRule
		matched, want string
	}{
		{"no rules", "interfaces: [{name: eth1, mtu: 9000}]", nil, "", "interfaces: [{name: eth1, mtu: 9000}]"},
		{"a name", template, []nmstate.MatchRule{{Name: "eth1"}}, "eth1", "interfaces: [{name: eth1, type: ethernet, mtu: 9000, made-by: others}]"},
		{"a type, and not what is ignored", template, []nmstate.MatchRule{{Type: "ethernet"}}, "eth1 eth2", "interfaces: [{name: eth1, type: ethernet, mtu: 9000, made-by: others}, {name: eth2, type: ethernet, mtu: 9000, made-by: others}]"},
		{"a VLAN", template, []nmstate.MatchRule{{VLANID: 7}}, "bond0.7", "interfaces: [{name: bond0.7, type: vlan, mtu: 9000, made-by: others}]"},
		{"all of a rule", template, []nmstate.MatchRule{{Name: "eth1", Type: "bond"}}, "", ""},
		{"one of the rules", template, []nmstate.MatchRule{{Name: "eth1"}, {Type: "bond"}}, "bond0 eth1", "interfaces: [{name: bond0, type: bond, mtu: 9000, made-by: others}, {name: eth1, type: ethernet, mtu: 9000, made-by: others}]"},
		{"a rule with nothing", template, []nmstate.MatchRule{{}}, "", ""},
		{"no match, and other fields", "routes: {config: [{destination: 10.0.0.0/8}]}", []nmstate.MatchRule{{Name: "eth9"}}, "", ""},
		{"no template", "interfaces: [{name: br1, type: linux-bridge}]", []nmstate.MatchRule{{Name: "eth1"}}, "eth1", "interfaces: [{name: br1, type: linux-bridge}]"},
		{"a type of its own", "interfaces: [{type: veth}]", []nmstate.MatchRule{{Name: "eth1"}}, "eth1", "interfaces: [{name: eth1, type: veth, made-by: others}]"},
		{"an interface with a name of its own", "interfaces: [{name: eth1, mtu: 1500}, {mtu: 9000}]", []nmstate.MatchRule{{Type: "ethernet"}}, "eth1 eth2", "interfaces: [{name: eth1, mtu: 1500}, {name: eth2, type: ethernet, mtu: 9000, made-by: others}]"},
		{"other fields", "{interfaces: [{name: '', mtu: 9000}], routes: {config: [{destination: 10.0.0.0/8}]}}", []nmstate.MatchRule{{Name: "eth1"}}, "eth1", "{interfaces: [{name: eth1, type: ethernet, mtu: 9000, made-by: others}], routes: {config: [{destination: 10.0.0.0/8}]}}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := nmstate.PolicySpec{Match: tc.rules, Desired: document(t, tc.desired)}
			before := words(t, p.Desired)
			got, matched, err := Instantiate(p, Node{Current: document(t, currentState)})
			if err != nil {
				t.Fatal(err)
			}
			same(t, "desired", got, tc.want)
			if strings.Join(matched, " ") != tc.matched {
				t.Errorf("matched %q, want %q", matched, tc.matched)
			}
			if words(t, p.Desired) != before {
				t.Error("the policy was changed")
			}
		})
	}
}

func TestInstantiate_Instances_ShareNoMemory(t *testing.T) {
	p := nmstate.PolicySpec{Match: []nmstate.MatchRule{{Type: "ethernet"}}, Desired: document(t, "interfaces: [{ipv4: {address: []}}]")}
	got, _, err := Instantiate(p, Node{Current: document(t, currentState)})
	if err != nil {
		t.Fatal(err)
	}
	list := got["interfaces"].([]any)
	list[0].(map[string]any)["ipv4"].(map[string]any)["enabled"] = true
	if other := list[1].(map[string]any)["ipv4"].(map[string]any); other["enabled"] != nil {
		t.Error("a change of one instance is one of the other")
	}
}

func TestInstantiate_WrongForm_RefusedWithPath(t *testing.T) {
	for desired, want := range map[string]string{
		"interfaces: [{mtu: 9000}]":                     "interfaces[0].name",
		"interfaces: [{name: a}, 7]":                    "interfaces[1]: expected an object",
		"interfaces: {name: a}":                         "expected a list",
		"interfaces: [{name: a}, {name: b}, {name: a}]": "interfaces[2].name: \"a\" is there twice",
		"routes: {config: {destination: 10.0.0.0/8}}":   "routes.config: expected a list",
		"route-rules: {config: [{priority: 1}, to]}":    "route-rules.config[1]: expected an object",
	} {
		_, _, err := Instantiate(nmstate.PolicySpec{Desired: document(t, desired)}, Node{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", desired, err, want)
		}
	}
	rules := []nmstate.MatchRule{{Name: "eth1"}}
	for desired, want := range map[string]string{
		"interfaces: [{mtu: 9000}, {name: a}, {mtu: 1500}]": "interfaces[2].name: only one",
		"interfaces: [{name: 7}]":                           "interfaces[0].name: expected a text",
		"interfaces: [7]":                                   "interfaces[0]: expected an object",
		"interfaces: 7":                                     "expected a list",
	} {
		_, _, err := Instantiate(nmstate.PolicySpec{Match: rules, Desired: document(t, desired)}, Node{Current: document(t, currentState)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", desired, err, want)
		}
	}
}

func TestPath_EachPath_DistinctText(t *testing.T) {
	paths := []path{
		{{key: "interfaces"}, {key: "bond0.100", element: true}, {key: "mtu"}},
		{{key: "interfaces"}, {key: "bond0", element: true}, {key: "100"}, {key: "mtu"}},
		{{key: "interfaces"}, {key: "a].b", element: true}},
		{{key: "interfaces"}, {key: "a", element: true}, {key: "b]"}},
		{{key: "interfaces"}, {key: "a", element: true}, {key: "802.1x"}},
		{{key: "interfaces"}, {key: "a", element: true}, {key: "802"}, {key: "1x"}},
		{{key: "a.b"}},
		{{key: "a"}, {key: "b"}},
		{{key: "a"}, {key: "\"b\""}},
		{{key: ""}},
		{{key: "\"\""}},
		{{key: "a"}, {key: ""}},
		{{key: "a"}, {key: "b", element: true}},
		{{key: "a[b]"}},
	}
	var texts []string
	for _, p := range paths {
		texts = append(texts, p.String())
	}
	if texts[0] != "interfaces[bond0.100].mtu" {
		t.Errorf("got %s", texts[0])
	}
	slices.Sort(texts)
	if unique := slices.Compact(slices.Clone(texts)); len(unique) != len(paths) {
		t.Errorf("some paths share a text: %q", texts)
	}
}
