// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package carrier

import (
	"net/netip"
	"testing"
)

func TestCarrier_StackedDevices_AllAddressesCounted(t *testing.T) {
	addr := func(texts ...string) (all []netip.Addr) {
		for _, text := range texts {
			all = append(all, netip.MustParseAddr(text))
		}
		return all
	}
	const pf, bond, vlan, other = 2, 3, 4, 5
	for _, tc := range []struct {
		name  string
		tag   uint32
		stack stack
		want  string
	}{
		{"nothing", 0, stack{{index: pf, name: "ens1"}}, ""},
		{"an address", 0, stack{{index: pf, name: "ens1", addrs: addr("192.0.2.1")}}, "ens1 192.0.2.1"},
		{"a link-local address", 0, stack{{index: pf, name: "ens1", addrs: addr("fe80::1", "169.254.1.1")}}, ""},
		{"an address elsewhere", 0, stack{{index: pf, name: "ens1"}, {index: other, name: "ens2", addrs: addr("192.0.2.1")}}, ""},
		{"a bond", 0, stack{{index: bond, name: "bond0", addrs: addr("2001:db8::1")}, {index: pf, name: "ens1", master: bond}}, "bond0 2001:db8::1"},
		{"a VLAN", 0, stack{{index: vlan, name: "ens1.7", vlan: 7, below: pf, addrs: addr("192.0.2.1")}, {index: pf, name: "ens1"}}, "ens1.7 192.0.2.1"},
		{"a VLAN on a bond", 0, stack{
			{index: vlan, name: "bond0.7", vlan: 7, below: bond, addrs: addr("192.0.2.1")}, {index: bond, name: "bond0"}, {index: pf, name: "ens1", master: bond},
		}, "bond0.7 192.0.2.1"},
		{"a VLAN of another device", 0, stack{{index: pf, name: "ens1"}, {index: other, name: "ens2"}, {index: vlan, name: "ens2.7", vlan: 7, below: other, addrs: addr("192.0.2.1")}}, ""},
		{"an address without a tag, and frames with one", 7, stack{{index: pf, name: "ens1", addrs: addr("192.0.2.1")}}, ""},
		{"another VLAN than that of the frames", 8, stack{{index: vlan, name: "ens1.7", vlan: 7, below: pf, addrs: addr("192.0.2.1")}, {index: pf, name: "ens1"}}, ""},
		{"the VLAN of the frames", 7, stack{{index: vlan, name: "ens1.7", vlan: 7, below: pf, addrs: addr("192.0.2.1")}, {index: pf, name: "ens1"}}, "ens1.7 192.0.2.1"},
		{"a bridge on the VLAN of the frames", 7, stack{
			{index: other, name: "br0", addrs: addr("192.0.2.1")},
			{index: vlan, name: "bond0.7", vlan: 7, below: bond, master: other},
			{index: bond, name: "bond0"},
			{index: pf, name: "ens1", master: bond},
		}, "br0 192.0.2.1"},
	} {
		got := ""
		if a, ok := tc.stack.carried(pf, tc.tag, func(a Address) bool { return a.IP.IsGlobalUnicast() }); ok {
			got = a.Device + " " + a.IP.String()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}
