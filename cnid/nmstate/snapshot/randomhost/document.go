// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package randomhost

import (
	"fmt"
	"strings"
)

// Document returns a desired state of a host. It may be wrong.
func (m Maker) Document() string {
	var d strings.Builder
	d.WriteString("interfaces:\n")
	for _, n := range m.Perm(len(Devices()))[:1+m.IntN(4)] {
		d.WriteString(m.wanted(Devices()[n]))
	}
	if lines := times(m, 3, m.wantedRoute); len(lines) > 0 {
		fmt.Fprintf(&d, "routes:\n  config:\n%s", strings.Join(lines, ""))
	}
	if lines := times(m, 3, m.wantedRule); len(lines) > 0 {
		fmt.Fprintf(&d, "route-rules:\n  config:\n%s", strings.Join(lines, ""))
	}
	if m.IntN(3) == 0 {
		fmt.Fprintf(&d, "dns-resolver: {config: {server: [192.0.2.%d]}}\n", 1+m.IntN(9))
	}
	return d.String()
}

func (m Maker) wanted(name string) string {
	switch m.IntN(8) {
	case 0, 1:
		return fmt.Sprintf("- {name: %s, state: absent}\n", name)
	case 2:
		return fmt.Sprintf("- {name: %s, state: %s}\n", name, m.one("down", "inactive", "inactive"))
	}
	parts := []string{"name: " + name, "type: " + m.section(name), "state: up"}
	add := func(percent int, format string, args ...any) {
		if m.IntN(100) < percent {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(30, "mtu: %d", m.number(1000, 1280, 1400, 1500))
	add(20, "description: %s", m.one("a", "uplink"))
	add(10, "accept-all-mac-addresses: %s", m.one("true", "false"))
	add(50, "ipv4: {enabled: true, address: [%s]}", strings.Join(times(m, 3, func() string {
		return fmt.Sprintf("{ip: %s, prefix-length: %d}", m.four(), m.number(24, 24, 32))
	}), ", "))
	add(20, "ipv6: {enabled: true, address: [%s]}", strings.Join(times(m, 2, func() string {
		return fmt.Sprintf("{ip: %q, prefix-length: 64}", m.six())
	}), ", "))
	add(10, "ipv6: {enabled: false}")
	add(10, "controller: %s", m.one("br0", "br1", `""`))
	return "- {" + strings.Join(parts, ", ") + "}\n"
}

// section returns the type of a device, with what it needs.
func (m Maker) section(name string) string {
	switch name {
	case "br0", "br1":
		ports := strings.Join(times(m, 2, m.wantedPort), ", ")
		return fmt.Sprintf("linux-bridge, bridge: {port: [%s], options: {stp: {enabled: %s}}}", ports, m.one("true", "false"))
	case "eth1.10":
		return fmt.Sprintf("vlan, vlan: {base-iface: eth1, id: %d}", m.number(10, 10, 11))
	case "br0.20":
		return "vlan, vlan: {base-iface: br0, id: 20}"
	case "mv0":
		return fmt.Sprintf("mac-vlan, mac-vlan: {base-iface: eth2, mode: %s, promiscuous: false}", m.one("bridge", "private"))
	case "bond0":
		return fmt.Sprintf(
			"bond, link-aggregation: {mode: %s, port: [%s]}",
			m.one("active-backup", "802.3ad"),
			strings.Join(times(m, 2, func() string { return m.one("eth2", "eth3", "dummy0") }), ", "),
		)
	case "vrf0":
		return "vrf, vrf: {route-table-id: 50, port: [" + m.one("", "eth1", "dummy0") + "]}"
	case "dummy0":
		return "dummy"
	case "vx0":
		return fmt.Sprintf("vxlan, vxlan: {base-iface: eth3, id: %d, remote: 192.0.2.9}", m.number(7, 8))
	default:
		return "ethernet"
	}
}

// wantedPort returns a port of a bridge.
func (m Maker) wantedPort() string {
	return "{name: " + m.port() + m.one(
		"", "", ", vlan: {}", fmt.Sprintf(", vlan: {mode: access, tag: %d}", 2+m.IntN(4)),
		fmt.Sprintf(", stp-path-cost: %d", 1+m.IntN(9)), ", stp-hairpin-mode: "+m.one("true", "false"),
	) + "}"
}

func (m Maker) wantedRoute() string {
	return m.one(
		fmt.Sprintf(
			"  - {destination: 198.18.%d.0/24, next-hop-address: %s, next-hop-interface: %s}\n",
			m.IntN(prefixes),
			m.four(),
			m.one("eth1", "eth2", "br0"),
		),
		fmt.Sprintf("  - {destination: 198.18.%d.0/24, route-type: blackhole}\n", m.IntN(prefixes)),
		fmt.Sprintf("  - {state: absent, next-hop-interface: %s}\n", m.one("eth1", "eth2", "br0")),
		fmt.Sprintf("  - {state: absent, destination: 198.18.%d.0/24}\n", m.IntN(prefixes)),
	)
}

func (m Maker) wantedRule() string {
	return m.one(
		fmt.Sprintf("  - {ip-from: %s/32, route-table: 300, priority: %d}\n", m.four(), 1000+m.IntN(3)),
		"  - {state: absent, route-table: 300}\n", fmt.Sprintf("  - {state: absent, priority: %d}\n", 1000+m.IntN(3)))
}
