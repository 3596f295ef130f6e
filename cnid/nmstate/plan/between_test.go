// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

func parse(t *testing.T, text string) *document.State {
	t.Helper()
	state, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func words(steps []plan.Step) []string {
	var list []string
	for _, s := range steps {
		list = append(list, s.String())
	}
	return list
}

// prepared is a host with what most examples begin with.
const prepared = "interfaces: [{name: eth0, ipv4: {enabled: true, address: [{ip: 192.0.2.7, prefix-length: 24}]}}, {name: eth1}, {name: eth2}]"

func TestPlanSteps_DependentObjects_KernelOrderUsed(t *testing.T) {
	for name, c := range map[string]struct{ before, desired, want string }{
		"a bond with a VLAN on top": {prepared, `
interfaces:
- {name: bond0.5, type: vlan, vlan: {base-iface: bond0, id: 5}, ipv4: {enabled: true, address: [{ip: 198.51.100.7, prefix-length: 24}]}}
- {name: bond0, type: bond, link-aggregation: {mode: active-backup, port: [eth1, eth2], options: {miimon: 100, primary: eth2}}}
routes: {config: [{destination: 203.0.113.0/24, next-hop-interface: bond0.5, next-hop-address: 198.51.100.1}]}`, `
create bond bond0
create vlan bond0.5
set down eth1
attach eth1 to bond0
set down eth2
attach eth2 to bond0
change settings of bond0
set up bond0
add 198.51.100.7/24 to bond0.5
add the route 203.0.113.0/24 via 198.51.100.1 dev bond0.5 table 254 metric 0`},
		"a bridge with trunk ports": {prepared, `
interfaces:
- {name: br0, type: linux-bridge, bridge: {options: {stp: {enabled: false}}, port: [{name: eth1, vlan: {mode: trunk, trunk-tags: [{id-range: {min: 5, max: 9}}]}}, {name: eth0}]}}`, `
create linux-bridge br0
attach eth0 to br0
attach eth1 to br0
change settings of port eth1 of br0
set up br0
remove 192.0.2.7/24 from eth0`},
		"a VRF with two ports": {prepared, "interfaces: [{name: vrf0, type: vrf, vrf: {route-table-id: 9, port: [eth0, eth1]}}]", `
create vrf vrf0
attach eth0 to vrf0
attach eth1 to vrf0
set up vrf0`},
		"a larger MTU from the base up": {prepared + "\n- {name: eth1.7, type: vlan, vlan: {base-iface: eth1, id: 7}}", `
interfaces: [{name: eth1.7, mtu: 9000}, {name: eth1, mtu: 9000}]`, "\nchange settings of eth1\nchange settings of eth1.7"},
		"a smaller MTU from the top down": {prepared + "\n- {name: eth1.7, type: vlan, vlan: {base-iface: eth1, id: 7}}", `
interfaces: [{name: eth1, mtu: 1400}, {name: eth1.7, mtu: 1400}]`, "\nchange settings of eth1.7\nchange settings of eth1"},
		"a new mode of a bond makes what is on top anew": {`
interfaces:
- {name: bond0, type: bond, link-aggregation: {mode: balance-rr, port: [eth1]}}
- {name: bond0.5, type: vlan, vlan: {base-iface: bond0, id: 5}, ipv4: {enabled: true, address: [{ip: 198.51.100.7, prefix-length: 24}]}}`, `
interfaces: [{name: bond0, link-aggregation: {mode: 802.3ad}}]`, `
delete bond0.5
delete bond0
create bond bond0
create vlan bond0.5
attach eth1 to bond0
change settings of bond0
set up bond0
enable IPv6 on bond0
enable IPv6 on bond0.5
turn forwarding of ipv4 on bond0 off
turn forwarding of ipv6 on bond0 off
turn forwarding of ipv4 on bond0.5 off
turn forwarding of ipv6 on bond0.5 off
add 198.51.100.7/24 to bond0.5`},
		"a VLAN whose base is down becomes a port of a bond": {`
interfaces: [{name: bond0, type: bond, link-aggregation: {mode: active-backup}}, {name: eth1, state: down}]`, `
interfaces: [{name: eth1, state: up}, {name: eth1.7, type: vlan, vlan: {base-iface: eth1, id: 7}, controller: bond0}]`, `
create vlan eth1.7
set up eth1
set down eth1.7
attach eth1.7 to bond0`},
		"an option that a bond takes only while it is down": {`
interfaces: [{name: bond0, type: bond, link-aggregation: {mode: 802.3ad}}]`, `
interfaces: [{name: bond0, link-aggregation: {options: {lacp_rate: fast}}}]`, "\nset down bond0\nchange settings of bond0\nset up bond0"},
		"the first address is the one that the document has first": {prepared, `
interfaces: [{name: eth0, ipv4: {address: [{ip: 192.0.2.6, prefix-length: 24}, {ip: 192.0.2.7, prefix-length: 24}]}}]`, `
remove 192.0.2.7/24 from eth0
add 192.0.2.6/24 to eth0
add 192.0.2.7/24 to eth0`},
		"an address that moves": {prepared, `
interfaces:
- {name: eth0, ipv4: {address: []}}
- {name: eth1, ipv4: {enabled: true, address: [{ip: 192.0.2.7, prefix-length: 24}]}}`, "\nremove 192.0.2.7/24 from eth0\nadd 192.0.2.7/24 to eth1"},
		"rules and routes go first and come last": {prepared + `
routes: {config: [{destination: 203.0.113.0/24, next-hop-interface: eth0, next-hop-address: 192.0.2.1}]}
route-rules: {config: [{ip-from: 192.0.2.0/24, priority: 5, route-table: 9}]}`, `
interfaces: [{name: eth1, description: uplink}]
routes: {config: [{state: absent, destination: 203.0.113.0/24}, {destination: 203.0.113.0/24, next-hop-interface: eth0, next-hop-address: 192.0.2.2, metric: 7}]}
route-rules: {config: [{state: absent, priority: 5}, {ip-to: 192.0.2.0/24, fwmark: 1, fwmask: 255, iif: eth1, action: prohibit}]}
dns-resolver: {config: {server: [192.0.2.1]}}`, `
remove the rule ipv4 from 192.0.2.0/24 priority 5 table 9
remove the route 203.0.113.0/24 via 192.0.2.1 dev eth0 table 254 metric 0
change settings of eth1
add the route 203.0.113.0/24 via 192.0.2.2 dev eth0 table 254 metric 7
add the rule ipv4 from all to 192.0.2.0/24 iif eth1 fwmark 0x1/0xff priority 30000 prohibit
replace the resolver's configuration`},
		"an absent controller": {`
interfaces: [{name: br0, type: linux-bridge, bridge: {port: [{name: eth1}]}}]`, "interfaces: [{name: br0, state: absent}]", "\ndetach eth1 from its controller\ndelete br0"},
		"what is there already": {prepared, prepared, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel("eth0", "eth1", "eth2")
			before := strings.ReplaceAll(c.before, "]\n- ", ", ")
			if before != c.before {
				before += "]"
			}
			reach(t, m, parse(t, before))
			current := m.show()
			to, err := target.Resolve(parse(t, c.desired), current)
			if err != nil {
				t.Fatal(err)
			}
			got := words(plan.Between(current, to))
			want := strings.Split(strings.TrimPrefix(c.want, "\n"), "\n")
			if c.want == "" {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			m.apply(t, to)
		})
	}
}

func reach(t *testing.T, m *model, desired *document.State) {
	t.Helper()
	to, err := target.Resolve(desired, m.show())
	if err != nil {
		t.Fatal(err)
	}
	m.apply(t, to)
}

func TestPlanSteps_VirtualFunctions_SetBeforeNamed(t *testing.T) {
	current := parse(t, "interfaces: [{name: eth0, type: ethernet, state: up, ethernet: {sr-iov: {total-vfs: 0, vfs: []}}}]")
	desired := parse(t, `
interfaces:
- {name: br0, type: linux-bridge, bridge: {port: [{name: eth0v0}]}}
- {name: eth0v0, type: ethernet}
- {name: eth0, ethernet: {sr-iov: {total-vfs: 1, vfs: [{id: 0, trust: true}]}}}`)
	to, err := target.Resolve(desired, current)
	if err != nil {
		t.Fatal(err)
	}
	got := words(plan.Between(current, to))
	want := []string{"set virtual functions of eth0", "create linux-bridge br0", "attach eth0v0 to br0", "set up br0", "set up eth0v0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	have := parse(
		t,
		"interfaces: [{name: eth0, type: ethernet, state: up, ethernet: {sr-iov: {total-vfs: 2, vfs: [{id: 0, trust: true, qos: 0}, {id: 1, trust: false}]}}}]",
	)
	same := parse(t, "interfaces: [{name: eth0, ethernet: {sr-iov: {vfs: [{id: 1}, {id: 0, trust: true}]}}}]")
	if to, err = target.Resolve(same, have); err != nil {
		t.Fatal(err)
	}
	if steps := plan.Between(have, to); len(steps) > 0 {
		t.Errorf("a subset of what is: %q", words(steps))
	}
}

// TestPlanSteps_BridgeFilteringOff_StaysOff: only the filter lets a port show VLANs.
func TestPlanSteps_BridgeFilteringOff_StaysOff(t *testing.T) {
	const format = "interfaces: [{name: br0, type: linux-bridge, state: up, bridge: {port: [{name: eth1, vlan: VLAN}]}}, {name: eth1, type: ethernet, state: up, controller: br0}]"
	port, filter := "change settings of port eth1 of br0", "turn the VLAN filter of br0 off"
	for shown, steps := range map[string][]string{
		"{}": {filter}, "{mode: access, tag: 1}": {filter}, "{mode: access, tag: 5}": {port, filter}, "{mode: trunk, trunk-tags: [{id: 5}]}": {port, filter},
	} {
		current := parse(t, strings.Replace(format, "VLAN", shown, 1))
		to := target.Back(parse(t, strings.Replace(format, ", vlan: VLAN", "", 1)), []string{"br0"})
		if got := words(plan.Between(current, to)); !slices.Equal(got, steps) {
			t.Errorf("%s: %q, want %q", shown, got, steps)
		}
	}
	for shown, steps := range map[string][]string{"{}": nil, "{mode: access, tag: 1}": nil, "{mode: access, tag: 5}": {port}} {
		current := parse(t, strings.Replace(format, "VLAN", shown, 1))
		to := target.Back(parse(t, strings.Replace(format, "VLAN", "{}", 1)), []string{"br0"})
		if got := words(plan.Between(current, to)); !slices.Equal(got, steps) {
			t.Errorf("%s of a bridge that has filtered: %q, want %q", shown, got, steps)
		}
	}
	current := parse(t, strings.Replace(format, "VLAN", "{mode: trunk, trunk-tags: [{id-range: {min: 5, max: 7}}]}", 1))
	to := target.Back(parse(t, strings.Replace(format, "VLAN", "{mode: trunk, trunk-tags: [{id: 7}, {id-range: {min: 5, max: 6}}]}", 1)), []string{"br0"})
	if got := plan.Between(current, to); len(got) > 0 {
		t.Errorf("the same tags in other words: %q", words(got))
	}
}

// TestPlanSteps_BaseSetUp_VLANAddressKept: the kernel sets the VLAN up too,
// and IPv6 addresses go when it is set down again.
func TestPlanSteps_BaseSetUp_VLANAddressKept(t *testing.T) {
	current := parse(t, `interfaces:
- {name: eth1, type: ethernet, state: down}
- {name: eth1.7, type: vlan, state: down, vlan: {base-iface: eth1, id: 7}, ipv6: {enabled: true, address: [{ip: "fd00::1", prefix-length: 64}]}}`)
	to, err := target.Resolve(parse(t, "interfaces: [{name: eth1, type: ethernet, state: up}]"), current)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"set up eth1", "set down eth1.7", "add fd00::1/64 to eth1.7"}
	if got := words(plan.Between(current, to)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPlanSteps_FirstIPv6Address_AddedLast: the kernel then lists it first.
func TestPlanSteps_FirstIPv6Address_AddedLast(t *testing.T) {
	m := newModel("eth1")
	const list = "address: [{ip: '2001:db8:2::1', prefix-length: 64}, {ip: '2001:db8:1::1', prefix-length: 64}]"
	want := "set up eth1; add 2001:db8:1::1/64 to eth1; add 2001:db8:2::1/64 to eth1"
	if got := m.steps(t, eth1("ipv6: {enabled: true, "+list+"}")); got != want {
		t.Errorf("steps: %s", got)
	}
	four := "ipv4: {address: [{ip: 192.0.2.2, prefix-length: 24}, {ip: 192.0.2.1, prefix-length: 24}]}"
	if got := m.steps(t, eth1(four)); got != "add 192.0.2.2/24 to eth1; add 192.0.2.1/24 to eth1" {
		t.Errorf("steps: %s", got)
	}
}
