// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

// kind is one of the kinds of policies that kubernetes-nmstate has examples of.
type kind struct {
	name string
	// by prepares the node by hand, and undo takes that back. reported is the part of the node's
	// state about it, "" if no expression is about it: these find the node as it is reported.
	by, undo, reported string
	capture            map[string]string
	// selects is a label of the node, "" for its name.
	selects string
	// desired and changed are documents. shows and then are lines of a shell that succeed
	// once the node is so.
	desired, changed string
	shows, then      []string
}

// leaseOnEth1 asks for a lease.
const leaseOnEth1 = `interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, dhcp: true}}]`

// leaseOf returns a shell's line that prints the address of a lease, and fails without one.
func leaseOf(link, network string) string {
	return `ip -4 -o addr show dev ` + link + ` dynamic | grep -o 'inet ` + network + `\.1[0-9]*/24'`
}

// Lines that succeed if there is, or is not, a lease.
func leased(link, network string) string { return leaseOf(link, network) }

func noIPv4(link string) string { return `! ip -4 -o addr show dev ` + link + ` | grep inet` }

// Networks of the server without and with the tag 102.
const (
	untagged = `198.51.100`
	tagged   = `203.0.113`
)

// kinds returns them all.
func kinds() (list []kind) {
	list = append(list, ethernetKinds()...)
	list = append(list, bondKinds()...)
	list = append(list, bridgeKinds()...)
	list = append(list, routingKinds()...)
	return append(list, otherKinds()...)
}

func ethernetKinds() []kind {
	return []kind{
		{
			name:    "an Ethernet device with DHCP",
			desired: leaseOnEth1,
			changed: `interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1400, ipv4: {enabled: true, dhcp: true, auto-gateway: false}}]`,
			shows:   []string{leased("eth1", untagged), `ip route | grep 'default via 198.51.100.1 dev eth1 proto dhcp'`, `grep lease.example /etc/resolv.conf`},
			then:    []string{leased("eth1", untagged), `! ip route | grep 'default via 198.51.100.1'`, `ip link show eth1 | grep 'mtu 1400'`},
		},
		{
			name:    "DHCP of both families",
			desired: `interfaces: [{name: eth2, type: ethernet, state: up, wait-ip: ipv4+ipv6, ipv4: {enabled: true, dhcp: true}, ipv6: {enabled: true, dhcp: true, autoconf: true}}]`,
			changed: `interfaces: [{name: eth2, type: ethernet, state: up, ipv4: {enabled: true, dhcp: true}, ipv6: {enabled: true, dhcp: false, autoconf: false}}]`,
			shows:   []string{leased("eth2", untagged), `ip -6 -o addr show dev eth2 scope global dynamic | grep 'inet6 2001:db8:100::1[0-9a-f]*/'`},
			then:    []string{leased("eth2", untagged), `! ip -6 -o addr show dev eth2 scope global dynamic | grep inet6`},
		},
		{
			name:    "a static address",
			desired: `interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, dhcp: false, address: [{ip: 198.51.100.20, prefix-length: 24}]}}]`,
			changed: `interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, dhcp: false, address: [{ip: 198.51.100.21, prefix-length: 24}]}}]`,
			shows:   []string{`ip -4 -o addr show dev eth1 | grep 198.51.100.20/24`},
			then:    []string{`ip -4 -o addr show dev eth1 | grep 198.51.100.21/24`, `! ip -4 -o addr show dev eth1 | grep 198.51.100.20/24`},
		},
		{
			name:    "nodes with the label of workers",
			selects: "node-role.kubernetes.io/worker",
			desired: `interfaces: [{name: eth2, type: ethernet, state: up, ipv4: {enabled: true, dhcp: true}}]`,
			changed: `interfaces: [{name: eth2, type: ethernet, state: up, ipv4: {enabled: true, dhcp: true, auto-route-metric: 700}}]`,
			shows:   []string{leased("eth2", untagged)},
			then:    []string{leased("eth2", untagged), `ip route | grep 'default via 198.51.100.1 dev eth2.*metric 700'`},
		},
		{
			name:    "an interface that forwards",
			desired: `interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, dhcp: true, forwarding: true}}]`,
			changed: `interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, dhcp: true, forwarding: false}}]`,
			shows:   []string{leased("eth1", untagged), `grep 1 /proc/sys/net/ipv4/conf/eth1/forwarding`},
			then:    []string{leased("eth1", untagged), `grep 0 /proc/sys/net/ipv4/conf/eth1/forwarding`},
		},
		{
			name:    "a VLAN with DHCP",
			desired: `interfaces: [{name: eth1.102, type: vlan, state: up, ipv4: {enabled: true, dhcp: true}, vlan: {base-iface: eth1, id: 102}}]`,
			changed: `interfaces: [{name: eth1.102, type: vlan, state: up, mtu: 1400, ipv4: {enabled: true, dhcp: true}, vlan: {base-iface: eth1, id: 102}}]`,
			shows:   []string{leased("eth1.102", tagged)},
			then:    []string{leased("eth1.102", tagged), `ip link show eth1.102 | grep 'mtu 1400'`},
		},
	}
}

func bondKinds() []kind {
	const bond = `{name: bond7, type: bond, state: up, ipv4: {enabled: true, dhcp: true}, link-aggregation: {mode: balance-rr, options: {miimon: '140'}, port: [eth1, eth2]}}`
	return []kind{
		{
			name:    "a bond with DHCP",
			desired: `interfaces: [` + bond + `]`,
			changed: `interfaces: [{name: bond7, type: bond, state: up, ipv4: {enabled: true, dhcp: true}, link-aggregation: {mode: active-backup, options: {miimon: '120'}, port: [eth1, eth2]}}]`,
			shows:   []string{leased("bond7", untagged), `grep 140 /sys/class/net/bond7/bonding/miimon`},
			then:    []string{leased("bond7", untagged), `grep active-backup /sys/class/net/bond7/bonding/mode`, `grep 120 /sys/class/net/bond7/bonding/miimon`},
		},
		{
			name:    "a bond that the policy removes again",
			desired: `interfaces: [{name: bond7, type: bond, state: up, ipv4: {enabled: true, dhcp: true}, link-aggregation: {mode: balance-rr, port: [eth1, eth2]}}]`,
			changed: `interfaces: [{name: bond7, state: absent}]`,
			shows:   []string{leased("bond7", untagged)},
			then:    []string{`! ip link show bond7`},
		},
		{
			name: "the bond that the kernel's module makes",
			by:   `ip link add probe0 type bond; ip link del probe0; ip link show bond0`, undo: `true`,
			desired: `interfaces: [{name: bond0, type: bond, state: up, ipv4: {enabled: true, dhcp: true}, link-aggregation: {mode: balance-rr, port: [eth1, eth2]}}]`,
			changed: `interfaces: [{name: bond0, state: absent}]`,
			shows:   []string{leased("bond0", untagged)},
			then:    []string{`! ip link show bond0`},
		},
		{
			name:    "a bond with a VLAN, both with DHCP",
			desired: `interfaces: [` + bond + `, {name: bond7.102, type: vlan, state: up, ipv4: {enabled: true, dhcp: true}, vlan: {base-iface: bond7, id: 102}}]`,
			changed: `interfaces: [` + bond + `, {name: bond7.102, type: vlan, state: up, ipv4: {enabled: true, dhcp: false, address: [{ip: 203.0.113.20, prefix-length: 24}]}, vlan: {base-iface: bond7, id: 102}}]`,
			shows:   []string{leased("bond7", untagged), leased("bond7.102", tagged)},
			then: []string{
				leased("bond7", untagged),
				`ip -4 -o addr show dev bond7.102 | grep 203.0.113.20/24`,
				`! ip -4 -o addr show dev bond7.102 dynamic | grep inet`,
			},
		},
	}
}

func bridgeKinds() []kind {
	// The bridge has no carrier until its port forwards.
	const byHand = `ip link add br8 type bridge; ip link set eth1 master br8; ip link set br8 up
		for i in $(seq 600); do ip -6 addr show dev br8 scope link -tentative | grep -q fe80 && break; sleep 0.1; done`
	return []kind{
		{
			name:    "a bridge with DHCP",
			desired: `interfaces: [{name: br7, description: with eth1, type: linux-bridge, state: up, ipv4: {enabled: true, dhcp: true}, bridge: {options: {stp: {enabled: false}}, port: [{name: eth1}]}}]`,
			changed: `interfaces: [{name: br7, description: with eth2, type: linux-bridge, state: up, ipv4: {enabled: true, dhcp: true}, bridge: {options: {stp: {enabled: false}}, port: [{name: eth2}]}}]`,
			shows:   []string{leased("br7", untagged), `ip link show eth1 | grep 'master br7'`},
			then:    []string{leased("br7", untagged), `ip link show eth2 | grep 'master br7'`, `! ip link show eth1 | grep master`},
		},
		{
			name:    "a bridge with VLANs of its port, and DHCP",
			desired: `interfaces: [{name: br7, type: linux-bridge, state: up, ipv4: {enabled: true, dhcp: true}, bridge: {options: {stp: {enabled: false}}, port: [{name: eth1, vlan: {mode: trunk, trunk-tags: [{id: 101}, {id-range: {min: 200, max: 500}}], tag: 100, enable-native: true}}]}}]`,
			changed: `interfaces: [{name: br7, type: linux-bridge, state: up, ipv4: {enabled: true, dhcp: true}, bridge: {options: {stp: {enabled: false}}, port: [{name: eth1, vlan: {mode: trunk, trunk-tags: [{id: 102}], tag: 1, enable-native: true}}]}}]`,
			// The bridge itself is in VLAN 1, so a lease comes after the change alone.
			shows: []string{`bridge vlan show dev eth1 | grep '100 PVID Egress Untagged'`, `bridge vlan show dev eth1 | grep -w 500`, noIPv4("br7")},
			then:  []string{`! bridge vlan show dev eth1 | grep -w 101`, leased("br7", untagged)},
		},
		{
			name: "a bridge by hand that is removed, and its port gets DHCP",
			by:   byHand, undo: `ip link del br8`,
			desired: `interfaces: [{name: br8, type: linux-bridge, state: absent}, {name: eth1, type: ethernet, state: up, ipv4: {enabled: true, dhcp: true}}]`,
			changed: `interfaces: [{name: br8, type: linux-bridge, state: absent}, {name: eth1, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: 198.51.100.20, prefix-length: 24}], dhcp: false}}]`,
			shows:   []string{`! ip link show br8`, leased("eth1", untagged)},
			then:    []string{`! ip link show br8`, `ip -4 -o addr show dev eth1 | grep 198.51.100.20/24`},
		},
	}
}

func routingKinds() []kind {
	const address = `ipv4: {enabled: true, dhcp: false, address: [{ip: 198.51.100.20, prefix-length: 24}]}`
	return []kind{
		{
			name:    "a route",
			desired: `{interfaces: [{name: eth1, type: ethernet, state: up, ` + address + `}], routes: {config: [{destination: 192.0.2.0/24, metric: 150, next-hop-address: 198.51.100.1, next-hop-interface: eth1, table-id: 254}]}}`,
			changed: `{interfaces: [{name: eth1, type: ethernet, state: up, ` + address + `}], routes: {config: [{destination: 192.0.2.0/24, metric: 151, next-hop-address: 198.51.100.1, next-hop-interface: eth1, table-id: 254}]}}`,
			shows:   []string{`ip route | grep '192.0.2.0/24 via 198.51.100.1 dev eth1.*metric 150'`},
			then:    []string{`ip route | grep '192.0.2.0/24 via 198.51.100.1 dev eth1.*metric 151'`, `! ip route | grep 'metric 150'`},
		},
		{
			name:    "a VRF with a route",
			desired: `{interfaces: [{name: vrf102, type: vrf, state: up, vrf: {port: [eth1], route-table-id: 102}}, {name: eth1, type: ethernet, state: up, ` + address + `}], routes: {config: [{destination: 192.0.2.0/24, metric: 150, next-hop-address: 198.51.100.1, next-hop-interface: eth1, table-id: 102}]}}`,
			changed: `{interfaces: [{name: vrf102, type: vrf, state: up, vrf: {port: [eth1], route-table-id: 103}}, {name: eth1, type: ethernet, state: up, ` + address + `}], routes: {config: [{destination: 192.0.2.0/24, metric: 150, next-hop-address: 198.51.100.1, next-hop-interface: eth1, table-id: 103}]}}`,
			shows:   []string{`ip link show eth1 | grep 'master vrf102'`, `ip route show table 102 | grep '192.0.2.0/24 via 198.51.100.1'`},
			then:    []string{`ip link show eth1 | grep 'master vrf102'`, `ip route show table 103 | grep '192.0.2.0/24 via 198.51.100.1'`},
		},
	}
}

func otherKinds() []kind {
	const resolver = `{interfaces: [{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, address: [{ip: 198.51.100.20, prefix-length: 24}]}, ipv6: {enabled: true, address: [{ip: '2001:db8:100::20', prefix-length: 64}]}}], dns-resolver: {config: `
	return []kind{
		{
			name:    "a resolver",
			desired: resolver + `{search: [example.com, example.org], server: [198.51.100.1, '2001:db8:100::1']}}}`,
			changed: resolver + `{search: [example.net], server: [198.51.100.1]}}}`,
			shows:   []string{`grep 'nameserver 198.51.100.1' /etc/resolv.conf`, `grep 'search example.com example.org' /etc/resolv.conf`},
			then:    []string{`! grep 2001:db8:100::1 /etc/resolv.conf`, `grep 'search example.net' /etc/resolv.conf`},
		},
		{
			name: "a resolver that is emptied, and a device without settings",
			by:   `ip addr add 198.51.100.20/24 dev eth1; ip route add 192.0.2.0/24 via 198.51.100.1 proto static`, undo: `ip addr flush dev eth1 scope global`,
			desired: `{dns-resolver: {config: {search: [], server: []}}, interfaces: [{name: eth1, state: absent}]}`,
			changed: `{dns-resolver: {config: {search: [], server: []}}, interfaces: [{name: eth1, state: up, ipv4: {enabled: true, dhcp: true}}]}`,
			shows:   []string{noIPv4("eth1"), `! grep nameserver /etc/resolv.conf`},
			then:    []string{leased("eth1", untagged)},
		},
		{
			name: "LLDP that is off on all Ethernet devices that are up",
			capture: map[string]string{
				"cards": `interfaces.type=="ethernet"`,
				"up":    `capture.cards | interfaces.state=="up"`,
				"off":   `capture.up | interfaces.lldp.enabled:=false`,
			},
			desired: `interfaces: "{{ capture.off.interfaces }}"`,
			changed: `interfaces: "{{ capture.up.interfaces }}"`,
		},
		{
			name: "what is so already, by expressions",
			by:   `ip addr add 198.51.100.20/24 dev eth1; ip -6 addr add 2001:db8:100::20/64 dev eth1 nodad; ip route add 192.0.2.0/24 via 198.51.100.1 proto static`,
			undo: `ip addr flush dev eth1 scope global`, reported: `"192.0.2.0/24"`,
			capture: map[string]string{
				"card": `interfaces.name=="eth1"`, "routes": `routes.running.next-hop-interface=="eth1"`, "names": `dns-resolver.running`,
			},
			desired: `{dns-resolver: {config: "{{ capture.names.dns-resolver.running }}"}, interfaces: [{name: eth1, ipv4: {enabled: true, dhcp: false, address: "{{ capture.card.interfaces.0.ipv4.address }}"}, ipv6: {enabled: true, dhcp: false, autoconf: false, address: "{{ capture.card.interfaces.0.ipv6.address }}"}}], routes: {config: "{{ capture.routes.routes.running }}"}}`,
			changed: `interfaces: [{name: eth1, ipv6: {enabled: true, dhcp: false, autoconf: false, address: []}}]`,
			shows:   []string{`ip -4 -o addr show dev eth1 | grep 198.51.100.20/24`, `ip route | grep '192.0.2.0/24 via 198.51.100.1'`},
			then:    []string{`! ip -6 -o addr show dev eth1 scope global | grep inet6`},
		},
		{
			name:    "a device that never was",
			desired: `interfaces: [{name: eth666, state: absent}]`,
			changed: `interfaces: [{name: eth666, state: absent}, {name: eth1, type: ethernet, mtu: 1400}]`,
			then:    []string{`ip link show eth1 | grep 'mtu 1400'`},
		},
	}
}
