// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const example = `description: a bond, and a VLAN on it
dns-resolver:
  config:
    search: [example.com]
    server: [192.0.2.53]
interfaces:
- name: bond1
  type: bond
  state: up
  link-aggregation:
    mode: 802.3ad
    options: {miimon: 100, lacp_rate: fast}
    port: [eth1, eth2]
- name: bond1.10
  type: vlan
  state: up
  vlan: {base-iface: bond1, id: 10}
  ipv4:
    enabled: true
    address:
    - {ip: 192.0.2.7, prefix-length: 24}
- name: eth3
  ipv4: {enabled: true, address: []}
- name: br1
  type: linux-bridge
  bridge:
    port:
    - name: eth4
      vlan: {mode: trunk, trunk-tags: [{id: 5}, {id-range: {min: 10, max: 20}}]}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond1.10, table-id: 254}
  - {state: absent, next-hop-interface: eth3}
route-rules:
  config:
  - {ip-from: 192.0.2.7/32, route-table: 100}
`

func TestDocument_ParseAndFormat_RoundTrip(t *testing.T) {
	state, err := Parse([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	bond, vlan := state.Interfaces[0], state.Interfaces[1]
	if bond.Bond.Mode != "802.3ad" || len(bond.Ports()) != 2 || vlan.Base() != "bond1" || *vlan.VLAN.ID != 10 {
		t.Errorf("%+v, %+v", bond, vlan)
	}
	text, err := state.Format()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if diff := cmp.Diff(state, again); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
}

func TestDocument_EmptyList_DistinctFromMissing(t *testing.T) {
	state, err := Parse([]byte("interfaces: [{name: eth0, ipv4: {address: []}}, {name: eth1, ipv4: {enabled: true}}]"))
	if err != nil {
		t.Fatal(err)
	}
	if state.Interfaces[0].IPv4.Addresses == nil || state.Interfaces[1].IPv4.Addresses != nil {
		t.Errorf("%v, %v", state.Interfaces[0].IPv4, state.Interfaces[1].IPv4)
	}
	text, err := state.Format()
	if err != nil || !strings.Contains(string(text), "address: []") {
		t.Errorf("%v:\n%s", err, text)
	}
}

func TestParse_UnknownField_RefusedWithPath(t *testing.T) {
	for text, want := range map[string][]string{
		"interfaces: [{name: eth0, mtuu: 1500}]":                                                      {`unknown field "interfaces[0].mtuu"`},
		"interfaces: [{name: eth0, lldp: {enabled: true}}]":                                           {`"interfaces[0].lldp"`, "LLDP is not supported"},
		"interfaces: [{name: eth0, 802.1x: {identity: me}}]":                                          {`"interfaces[0].802.1x"`, "802.1x is not supported"},
		"interfaces: [{name: eth0, ipv6: {addr-gen-mode: eui64}}]":                                    {`"interfaces[0].ipv6.addr-gen-mode"`, "addr-gen-mode is not supported"},
		"interfaces: [{name: eth0, dispatch: {post-activation: rm}}]":                                 {`"interfaces[0].dispatch"`, "dispatch scripts are not supported"},
		"interfaces: [{name: x, mac-vtap: {}}, {name: x2, ip-tunnel: {}}]":                            {`"interfaces[0].mac-vtap": interfaces of this type are not supported`, `"interfaces[1].ip-tunnel": interfaces of this type`},
		"{ovs-db: {}, hostname: {config: a}}":                                                         {`"ovs-db"`, "Open vSwitch is not supported", `"hostname"`, "hostnamectl"},
		"interfaces: [{name: eth0, mtu: big}]":                                                        {`interfaces[0].mtu: "big": want a whole number`},
		"interfaces: [{name: eth0, name: eth1}]":                                                      {`"name" already set`},
		"interfaces: [":                                                                               {"read the state document"},
		"interfaces: [{name: eth0, type: ovs-bridge, bridge: {port: []}}, {name: eth1, ethtool: {}}]": {"ethtool settings"},
	} {
		_, err := Parse([]byte(text))
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", text, err, part)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Fuzz(func(t *testing.T, text []byte) {
		state, err := Parse(text)
		if err != nil {
			return
		}
		again, err := state.Format()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(again); err != nil {
			t.Errorf("what was read can't be read again: %v\n%s", err, again)
		}
	})
}
