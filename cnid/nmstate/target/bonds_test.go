// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// TestTargetBond_PortLeaves_OwnMACAddressRestored: a port in a bond is shown with the bond's
// address.
func TestTargetBond_PortLeaves_OwnMACAddressRestored(t *testing.T) {
	const of, named = "02:00:00:00:00:01", "02:00:00:00:00:99"
	const current = `
interfaces:
- {name: eth2, type: ethernet, state: up, mac-address: "02:00:00:00:00:01", controller: b}
- {name: b, type: bond, state: up, mac-address: "02:00:00:00:00:01", link-aggregation: {mode: balance-rr, port: [eth2]}}
- {name: br, type: linux-bridge, state: up, bridge: {port: []}}
- {name: vrf, type: vrf, state: up, vrf: {port: [], route-table-id: 7}}`
	for desired, want := range map[string]string{
		"{name: b, state: absent}":                                                 "",
		"{name: b, link-aggregation: {port: []}}":                                  "",
		`{name: eth2, controller: ""}`:                                             "",
		"{name: br, bridge: {port: [{name: eth2}]}}":                               "",
		"{name: vrf, vrf: {port: [eth2]}}":                                         "",
		"{name: b, state: absent}, {name: eth2, mtu: 1400}":                        "",
		`{name: b, state: absent}, {name: eth2, mac-address: "02:00:00:00:00:99"}`: named,
		"{name: b, link-aggregation: {mode: active-backup}}":                       "",
		"{name: eth2, mtu: 1400}":                                                  "",
		"{name: eth2, state: down}":                                                "",
	} {
		to := over(t, current, "interfaces: ["+desired+"]")
		at := slices.IndexFunc(to.Interfaces, func(i document.Interface) bool { return i.Name == "eth2" })
		if got := to.Interfaces[at].MACAddress; got != want {
			t.Errorf("%s: the address is %q, want %q (that of the bond is %s)", desired, got, want, of)
		}
	}
}

// TestTargetBond_PortsReplaced_FirstPortsAddress: the kernel gives it that, unless the bond has
// an address of its own. With a port that stays, the address stays.
func TestTargetBond_PortsReplaced_FirstPortsAddress(t *testing.T) {
	const current = `
interfaces:
- {name: eth1, type: ethernet, state: up, mac-address: "02:00:00:00:00:01", permanent-mac-address: "02:00:00:00:00:01"}
- {name: eth2, type: ethernet, state: up, mac-address: %[1]q, permanent-mac-address: "02:00:00:00:00:02", controller: b}
- {name: v, type: veth, state: up, mac-address: %[1]q, controller: c}
- {name: b, type: bond, state: up, mac-address: %[1]q, link-aggregation: {mode: balance-rr, port: [eth2]}}
- {name: c, type: bond, state: up, mac-address: %[1]q, link-aggregation: {mode: balance-rr, port: [v]}}
- {name: e, type: bond, state: up, mac-address: %[1]q, link-aggregation: {mode: balance-rr, port: []}}`
	const ofPort, own = "02:00:00:00:00:02", "02:00:00:00:00:99"
	for _, c := range []struct{ is, bond, desired, want string }{
		{ofPort, "b", "link-aggregation: {port: [eth1]}", ""},
		{ofPort, "b", "link-aggregation: {port: [eth1, eth2]}", ofPort},
		{ofPort, "b", "link-aggregation: {port: []}", ofPort},
		{ofPort, "b", `mac-address: "02:00:00:00:00:99", link-aggregation: {port: [eth1]}`, own},
		{ofPort, "e", "link-aggregation: {port: [eth1]}", ""},
		{ofPort, "e", "mtu: 1400", ofPort},
		{own, "b", "link-aggregation: {port: [eth1]}", own},
		{own, "c", "link-aggregation: {port: [eth1]}", ""},
	} {
		to := over(t, fmt.Sprintf(current, c.is), "interfaces: [{name: "+c.bond+", "+c.desired+"}]")
		if at := slices.IndexFunc(to.Interfaces, func(i document.Interface) bool { return i.Name == c.bond }); to.Interfaces[at].MACAddress != c.want {
			t.Errorf("%s of %s, %s: the address is %q, want %q", c.bond, c.is, c.desired, to.Interfaces[at].MACAddress, c.want)
		}
	}
}

// TestTargetBond_AddressOfActivePort_Kept: the shown state can be applied, also after
// another port became active, or after the bond has gone. A former address does not prevent the
// option.
func TestTargetBond_AddressOfActivePort_Kept(t *testing.T) {
	const ports = `
- {name: eth1, type: ethernet, state: up, mac-address: "02:00:00:00:00:01", controller: b}
- {name: eth2, type: ethernet, state: up, mac-address: "02:00:00:00:00:02", controller: b}`
	const bond = ports + `
- {name: b, type: bond, state: up, mac-address: "02:00:00:00:00:01", link-aggregation: {mode: active-backup, port: [eth1, eth2], options: {fail_over_mac: %s}}}`
	active, gone := fmt.Sprintf(bond, "active"), strings.ReplaceAll(ports, "controller: b", `controller: ""`)
	for _, c := range []struct{ current, desired string }{
		{active, `{name: b, mac-address: "02:00:00:00:00:01"}`},
		{active, `{name: b, mac-address: "02:00:00:00:00:02"}`},
		{gone, `{name: b, type: bond, mac-address: "02:00:00:00:00:02", link-aggregation: {mode: active-backup, port: [eth1, eth2], options: {fail_over_mac: 1}}}`},
		{fmt.Sprintf(bond, "none"), "{name: b, link-aggregation: {options: {fail_over_mac: active}}}"},
	} {
		if i := over(t, "interfaces:"+c.current, "interfaces: ["+c.desired+"]").Interfaces[0]; i.Name != "b" || i.MACAddress != "" {
			t.Errorf("%s: %s has the address %q", c.desired, i.Name, i.MACAddress)
		}
	}
}

// TestTargetBond_DriverKeepsOption_BondRecreated: the driver takes no address that means none.
func TestTargetBond_DriverKeepsOption_BondRecreated(t *testing.T) {
	const current = `interfaces: [{name: b, type: bond, state: up, link-aggregation: {mode: 802.3ad, port: [], options: {ad_actor_system: %q}}}]`
	for is, want := range map[string]bool{"02:00:00:00:00:01": true, "00:00:00:00:00:00": false} {
		now := parse(t, fmt.Sprintf(current, is))
		to := over(t, fmt.Sprintf(current, is), `interfaces: [{name: b, link-aggregation: {options: {ad_actor_system: "00:00:00:00:00:00"}}}]`)
		if got := compare.Recreated(now.Interfaces[0], to.Interfaces[0]); got != want {
			t.Errorf("from %s: made anew: %v", is, got)
		}
	}
}
