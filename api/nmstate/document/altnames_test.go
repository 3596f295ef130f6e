// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/quote"
)

func object(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestMergeAltNames_BothLists_MergedByName(t *testing.T) {
	have := []document.AltName{{Name: "b"}, {Name: "c"}}
	want := []document.AltName{{Name: "c", State: document.Absent}, {Name: "a"}}
	got := document.MergeAltNames(have, want)
	if !reflect.DeepEqual(got, []document.AltName{{Name: "a"}, {Name: "b"}, {Name: "c", State: document.Absent}}) {
		t.Errorf("got %v", got)
	}
	if want[0].Name != "c" || have[0].Name != "b" {
		t.Error("the arguments were changed")
	}
}

// TestKernelNames_UnusableName_NotUsed: a node reports its state as it likes.
func TestKernelNames_UnusableName_NotUsed(t *testing.T) {
	for _, name := range []string{strings.Repeat("x", quote.MaxQuoted+1), "a\nb", ""} {
		current := map[string]any{"interfaces": []any{map[string]any{"name": name, "alt-names": []any{map[string]any{"name": "port1"}}}}}
		desired := object(t, `interfaces: [{name: port1}]`)
		if got := document.KernelNames(desired, current); !reflect.DeepEqual(got, desired) {
			t.Errorf("%q was used", name)
		}
	}
}

// TestKernelNames_AlternativeNames_Replaced has each field that names an interface.
func TestKernelNames_AlternativeNames_Replaced(t *testing.T) {
	current := object(t, `interfaces: [{name: eth1, alt-names: [{name: port1}, {name: eth2}]}, {name: eth2}]`)
	const text = `
interfaces:
- {name: port1, controller: port1, copy-mac-from: port1, description: port1, alt-names: [{name: port1}]}
- {name: br0, bridge: {port: [{name: port1, stp-priority: 1}, {name: eth2}]}}
- {name: bond0, link-aggregation: {port: [port1, eth2], options: {primary: port1}}}
- {name: bond1, bond: {ports: [port1]}}
- {name: vrf0, vrf: {port: [port1]}}
- {name: v0, veth: {peer: port1}}
- {name: a, vlan: {base-iface: port1}}
- {name: b, vxlan: {base-iface: port1}}
- {name: c, mac-vlan: {base-iface: port1}}
- {name: d, ipvlan: {base-iface: port1}}
- broken
routes: {config: [{next-hop-interface: port1, destination: port1}, {vrf-name: port1}]}
route-rules: {config: [{iif: port1}]}`
	const want = `
interfaces:
- {name: eth1, controller: eth1, copy-mac-from: eth1, description: port1, alt-names: [{name: port1}]}
- {name: br0, bridge: {port: [{name: eth1, stp-priority: 1}, {name: eth2}]}}
- {name: bond0, link-aggregation: {port: [eth1, eth2], options: {primary: eth1}}}
- {name: bond1, bond: {ports: [eth1]}}
- {name: vrf0, vrf: {port: [eth1]}}
- {name: v0, veth: {peer: eth1}}
- {name: a, vlan: {base-iface: eth1}}
- {name: b, vxlan: {base-iface: eth1}}
- {name: c, mac-vlan: {base-iface: eth1}}
- {name: d, ipvlan: {base-iface: eth1}}
- broken
routes: {config: [{next-hop-interface: eth1, destination: port1}, {vrf-name: eth1}]}
route-rules: {config: [{iif: eth1}]}`
	desired := object(t, text)
	if got := document.KernelNames(desired, current); !reflect.DeepEqual(got, object(t, want)) {
		text, _ := json.Marshal(got)
		t.Errorf("got %s", text)
	}
	if !reflect.DeepEqual(desired, object(t, text)) {
		t.Error("the document was changed")
	}
}
