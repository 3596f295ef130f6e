// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestParse_OpenVSwitchInterface_TypeRead reads an interface whose sections have shapes of their
// own. The reader leaves them out: the type alone is refused, later.
func TestParse_OpenVSwitchInterface_TypeRead(t *testing.T) {
	s, err := Parse([]byte(`interfaces: [{name: br1, type: ovs-bridge, state: up, bridge: {options: {stp: true}, port: [{name: eth1}]}}]`))
	if err != nil {
		t.Fatal(err)
	}
	if i := s.Interfaces[0]; i.Name != "br1" || i.Type != "ovs-bridge" || i.Bridge != nil {
		t.Errorf("it is %+v", i)
	}
}

// TestParse_EachForm_SameValue reads values that nmstate takes in several forms: quoted values,
// numbers for words, second names, and values that mean the same as a missing field.
func TestParse_EachForm_SameValue(t *testing.T) {
	for _, c := range []struct{ written, want string }{
		{`interfaces: [{name: eth0, mtu: '1450', accept-all-mac-addresses: 'yes'}]`, `interfaces: [{name: eth0, mtu: 1450, accept-all-mac-addresses: true}]`},
		{`interfaces: [{name: eth0, accept-all-mac-addresses: 0}]`, `interfaces: [{name: eth0, accept-all-mac-addresses: false}]`},
		{`interfaces: [{name: eth0, accept-all-mac-addresses: 'N'}]`, `interfaces: [{name: eth0, accept-all-mac-addresses: false}]`},
		{`interfaces: [{name: 100, state: up}]`, `interfaces: [{name: '100', state: up}]`},
		{`interfaces: [{name: vx, vxlan: {base-iface: eth0, id: '7', destination-port: '4790', learning: 'off'}}]`, `interfaces: [{name: vx, vxlan: {base-iface: eth0, id: 7, destination-port: 4790, learning: false}}]`},
		{`interfaces: [{name: v, vlan: {base-iface: eth0, id: '0x10'}}]`, `interfaces: [{name: v, vlan: {base-iface: eth0, id: 16}}]`},
		{`interfaces: [{name: eth0, ipv4: {enabled: 'true', address: [{ip: 192.0.2.7, prefix-length: '24'}]}}]`, `interfaces: [{name: eth0, ipv4: {enabled: true, address: [{ip: 192.0.2.7, prefix-length: 24}]}}]`},
		{`interfaces: [{name: eth0, ethernet: {sr-iov: {total-vfs: '2', vfs: [{id: '0', trust: 'on', max-tx-rate: '100'}]}}}]`, `interfaces: [{name: eth0, ethernet: {sr-iov: {total-vfs: 2, vfs: [{id: 0, trust: true, max-tx-rate: 100}]}}}]`},
		{`interfaces: [{name: b, bond: {mode: 4, ports: [eth1]}}]`, `interfaces: [{name: b, link-aggregation: {mode: 802.3ad, port: [eth1]}}]`},
		{`interfaces: [{name: b, link-aggregation: {mode: '1'}}]`, `interfaces: [{name: b, link-aggregation: {mode: active-backup}}]`},
		{`interfaces: [{name: b, link-aggregation: {mode: lacp, options: {num_unsol_na: 3}}}]`, `interfaces: [{name: b, link-aggregation: {mode: 802.3ad, options: {num_grat_arp: 3}}}]`},
		{`interfaces: [{name: b, link-aggregation: {options: {num_unsol_na: 3, num_grat_arp: 3}}}]`, `interfaces: [{name: b, link-aggregation: {options: {num_grat_arp: 3}}}]`},
		{`interfaces: [{name: r, vrf: {ports: [eth1], route-table-id: '100'}}]`, `interfaces: [{name: r, vrf: {port: [eth1], route-table-id: 100}}]`},
		{`interfaces: [{name: m, mac-vlan: {base-iface: eth0, accept-all-mac: false}}]`, `interfaces: [{name: m, mac-vlan: {base-iface: eth0, promiscuous: false}}]`},
		{`interfaces: [{name: r, bridge: {options: {group-fwd-mask: '8', stp: {priority: '4096'}}, ports: [{name: eth1, stp-path-cost: '10', vlan: {tag: '5', trunk-tags: [{id: '7'}, {id-range: {min: '8', max: '9'}}]}}]}}]`, `interfaces: [{name: r, bridge: {options: {group-forward-mask: 8, stp: {priority: 4096}}, port: [{name: eth1, stp-path-cost: 10, vlan: {tag: 5, trunk-tags: [{id: 7}, {id-range: {min: 8, max: 9}}]}}]}}]`},
		{`interfaces: [{name: r, bridge: {options: {multicast-router: 2, multicast-querier: 'yes', hash-max: '4096'}}}]`, `interfaces: [{name: r, bridge: {options: {multicast-router: enabled, multicast-querier: true, hash-max: 4096}}}]`},
		{`interfaces: [{name: r, vrf: {route-table-id: 0, port: []}}]`, `interfaces: [{name: r, vrf: {port: []}}]`},
		{`interfaces: [{name: eth1, identifier: name, lldp: {enabled: false}, mptcp: {address-flags: []}, ipv4: {allow-extra-address: false}}]`, `interfaces: [{name: eth1, ipv4: {}}]`},
		{`interfaces: [{name: v, vlan: {base-iface: eth1, id: 5, registration-protocol: none, reorder-headers: true, loose-binding: false}}]`, `interfaces: [{name: v, vlan: {base-iface: eth1, id: 5}}]`},
		{`dns-resolver: {config: {server: ['2000:0000:0000:0000:0000:0000:0000:0100', 'FE80::1%eth1']}}`, `dns-resolver: {config: {server: ['2000::100', 'fe80::1%eth1']}}`},
		{`interfaces: [{name: d, type: dummy, state: absent, mtu: big, nothing: {known: 1}}]`, `interfaces: [{name: d, type: dummy, state: absent}]`},
		{`routes: {config: [{destination: 198.51.100.7, next-hop-interface: eth0, metric: -1, table-id: '50', next-hop-address: 0.0.0.0}]}`, `routes: {config: [{destination: 198.51.100.7/32, next-hop-interface: eth0, table-id: 50}]}`},
		{`routes: {config: [{destination: 198.51.100.7/24, next-hop-interface: eth0, metric: '5', next-hop-address: ''}]}`, `routes: {config: [{destination: 198.51.100.0/24, next-hop-interface: eth0, metric: 5}]}`},
		{`routes: {config: [{destination: '2001:DB8::7', next-hop-interface: eth0, next-hop-address: '::'}]}`, `routes: {config: [{destination: '2001:db8::7/128', next-hop-interface: eth0}]}`},
		{`route-rules: {config: [{ip-from: 203.0.113.1, ip-to: '', route-table: '50', priority: -1, fwmark: '0x20', fwmask: '48'}]}`, `route-rules: {config: [{ip-from: 203.0.113.1/32, route-table: 50, fwmark: 32, fwmask: 48}]}`},
		{`routes: {config: [{destination: 198.51.100.0/24, next-hop-interface: eth0, mtu: '1400', lock-mtu: 'no', quickack: false}]}`, `routes: {config: [{destination: 198.51.100.0/24, next-hop-interface: eth0, mtu: 1400}]}`},
		{`route-rules: {config: [{state: absent, ip-from: '', route-table: 50}]}`, `route-rules: {config: [{state: absent, ip-from: all, route-table: 50}]}`},
	} {
		got, err := Parse([]byte(c.written))
		if err != nil {
			t.Errorf("%s: %v", c.written, err)
			continue
		}
		want, err := Parse([]byte(c.want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.written, diff)
		}
		if diff := cmp.Diff(tree(t, got), Normal(written(t, c.written))); diff != "" {
			t.Errorf("%s, as JSON (-want +got):\n%s", c.written, diff)
		}
	}
}

// written is a document in YAML as JSON, and tree a state.
func written(t *testing.T, text string) (document map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	return document
}

func tree(t *testing.T, state *State) map[string]any {
	t.Helper()
	text, err := state.Format()
	if err != nil {
		t.Fatal(err)
	}
	return written(t, string(text))
}

// TestNormal_EachField_OneForm tests each field of the schema by its first and its second name. A
// value in normal form stays unchanged.
func TestNormal_EachField_OneForm(t *testing.T) {
	right := map[reflect.Kind]any{
		reflect.String: "x",
		reflect.Bool:   true,
		reflect.Slice:  []any{},
		reflect.Struct: map[string]any{},
		reflect.Map:    map[string]any{"miimon": 100.0},
	}
	seconds := 0
	for _, f := range schema() {
		value, ok := right[f.kind]
		if !ok {
			value = 7.0
		}
		document, _ := f.document(value).(map[string]any)
		if f.path == "" {
			continue
		}
		first := Normal(document)
		if again := Normal(first); !cmp.Equal(first, again) {
			t.Errorf("%s: %v becomes %v", f.path, first, again)
		}
		if f.second == nil {
			continue
		}
		seconds++
		if got := Normal(f.second(value).(map[string]any)); !cmp.Equal(first, got) {
			t.Errorf("%s: by its second name it is %v, want %v", f.path, got, first)
		}
	}
	const least = 6
	if seconds < least {
		t.Errorf("only %d fields have second names", seconds)
	}
}

// TestNormal_UnreadableValue_Unchanged wants the other values in normal form.
func TestNormal_UnreadableValue_Unchanged(t *testing.T) {
	const text = `{dns-resolver: null, interfaces: [{name: 7, mac-address: null, mtu: '1400', unknown: 1, bond: {ports: '{{ capture.x }}', mode: 4, more: 1}},
		{name: b, link-aggregation: {port: [a], ports: [b]}}, 5], routes: {config: [{destination: '', metric: -1}]}, other: [1]}`
	const want = `{interfaces: [{name: '7', mtu: 1400, unknown: 1, link-aggregation: {port: '{{ capture.x }}', mode: '4', more: 1}},
		{name: b, link-aggregation: {port: [a], ports: [b]}}, 5], routes: {config: [{destination: '', metric: -1}]}, other: [1]}`
	before := written(t, text)
	if diff := cmp.Diff(written(t, want), Normal(before)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(written(t, text), before); diff != "" {
		t.Errorf("the document has changed (-before +after):\n%s", diff)
	}
	if Normal(nil) != nil {
		t.Error("no document became one")
	}
}

// TestParse_EmptyText_NotTakenAsMissing: an absent entry without a field matches any value of it.
func TestParse_EmptyText_NotTakenAsMissing(t *testing.T) {
	for text, want := range map[string]string{
		`routes: {config: [{state: absent, next-hop-interface: eth1, destination: ""}]}`: `state document: routes.config[0].destination: "": want a value: to match any, remove the field`,
		`routes: {config: [{state: absent, next-hop-interface: ""}]}`:                    `state document: routes.config[0].next-hop-interface: "": want a value: to match any, remove the field`,
		`routes: {config: [{state: absent, next-hop-address: ""}]}`:                      `state document: routes.config[0].next-hop-address: "": want a value: to match any, remove the field`,
		`routes: {config: [{destination: "", next-hop-interface: eth1}]}`:                `state document: routes.config[0].destination: "": want a value: to match any, remove the field`,
		`route-rules: {config: [{state: absent, route-table: 5, action: ""}]}`:           `state document: route-rules.config[0].action: "": want a value: to match any, remove the field`,
	} {
		if _, err := Parse([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestParse_TwoNamesOfField_Refused(t *testing.T) {
	_, err := Parse([]byte(`interfaces: [{name: b, link-aggregation: {port: [eth1], ports: [eth2]}}]`))
	const want = "state document: interfaces[0].link-aggregation.ports: it is the same as port: remove one"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
