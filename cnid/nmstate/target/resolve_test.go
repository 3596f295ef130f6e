// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// host is the current state of the tests, as package kernel shows it.
const host = `
interfaces:
- {name: lo, type: loopback, state: up, mtu: 65536}
- {name: eth0, type: ethernet, state: up, mtu: 1500, min-mtu: 68, max-mtu: 9000, mac-address: "02:00:00:00:00:01", controller: "", ipv4: {enabled: true, address: [{ip: 192.0.2.7, prefix-length: 24}]}, ipv6: {enabled: true, autoconf: true, address: []}}
- {name: eth1, type: ethernet, state: up, mtu: 1500, controller: bond0}
- {name: eth2, type: ethernet, state: up, mtu: 1500, controller: "", ipv4: {enabled: true, address: [{ip: 198.51.100.7, prefix-length: 24}]}}
- {name: eth3, type: ethernet, state: down, mtu: 1500, controller: ""}
- {name: bond0, type: bond, state: up, mtu: 1500, controller: "", link-aggregation: {mode: active-backup, port: [eth1], options: {miimon: 100, primary: eth1}}}
- {name: bond0.5, type: vlan, state: up, mtu: 1500, controller: "", vlan: {base-iface: bond0, id: 5}}
- {name: br0, type: linux-bridge, state: up, mtu: 1500, controller: "", bridge: {port: []}}
- {name: va, type: veth, state: up, mtu: 1500, controller: "", veth: {peer: vb}}
- {name: vb, type: veth, state: up, mtu: 1500, controller: "", veth: {peer: va}}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-interface: eth0, next-hop-address: 192.0.2.1, metric: 0, table-id: 254}
  - {destination: 203.0.113.0/24, next-hop-interface: eth2, next-hop-address: 198.51.100.1, metric: 0, table-id: 254}
  - {destination: "2001:db8::/32", next-hop-interface: bond0.5, metric: 1024, table-id: 100}
route-rules:
  config:
  - {family: ipv4, ip-from: 192.0.2.0/24, priority: 100, route-table: 100}
`

func parse(t testing.TB, text string) *document.State {
	t.Helper()
	state, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestResolve_InvalidField_ErrorWithPath has the exact text of every error.
func TestResolve_InvalidField_ErrorWithPath(t *testing.T) {
	for _, c := range []struct{ desired, want string }{
		{`interfaces: [{name: "a/b", type: dummy}]`, `interfaces[0].name: "a/b": want 1 to 15 bytes without slash, colon and space, and neither . nor ..`},
		{`interfaces: [{name: eth0}, {name: eth0}]`, `interfaces[1].name: eth0: interfaces[0] has that name too`},
		{`interfaces: [{name: eth0, state: "no"}]`, `interfaces[0].state: no: want one of up, down, inactive, absent, ignore`},
		{`interfaces: [{name: eth9, type: ethernet}]`, `interfaces[0].name: eth9: no such device`},
		{`interfaces: [{name: eth9}]`, `interfaces[0].type: missing: eth9 does not exist, and making it needs its type`},
		{`interfaces: [{name: lo1, type: loopback}]`, `interfaces[0].type: loopback: lo1 does not exist, and interfaces of that type can't be made`},
		{`interfaces: [{name: bond0, type: vlan}]`, `interfaces[0].type: vlan: bond0 is of type bond: make it absent first`},
		{`interfaces: [{name: eth0, type: vlan}]`, `interfaces[0].type: vlan: eth0 is of type ethernet: choose another name`},
		{`interfaces: [{name: eth0, vlan: {id: 5}}]`, `interfaces[0].vlan: eth0 is of type ethernet, which has no such section`},
		{`interfaces: [{name: lo, state: down}]`, `interfaces[0].state: down: the loopback interface stays up`},
		{`interfaces: [{name: eth0, mac-address: "02:00"}]`, `interfaces[0].mac-address: 02:00: want six octets in hex with colons`},
		{`interfaces: [{name: eth0, mtu: 9001}]`, `interfaces[0].mtu: 9001: eth0 takes at most 9000`},
		{`interfaces: [{name: eth0, mtu: 67}]`, `interfaces[0].mtu: 67: eth0 takes 68 or more`},
		{`interfaces: [{name: eth0, mtu: 1279, ipv6: {address: [{ip: "2001:db8::7", prefix-length: 64}]}}]`, `interfaces[0].mtu: 1279: IPv6 needs 1280 or more: raise it, or set ipv6.enabled to false`},
		{`interfaces: [{name: eth0, mtu: 1279}]`, `interfaces[0].mtu: 1279: IPv6 needs 1280 or more: raise it, or set ipv6.enabled to false`},
		{`interfaces: [{name: d, type: dummy, mtu: 1279, ipv6: {enabled: true}}]`, `interfaces[0].mtu: 1279: IPv6 needs 1280 or more: raise it, or set ipv6.enabled to false`},
		{`interfaces: [{name: m, type: mac-vlan, mac-vlan: {base-iface: eth0, mode: bridge, promiscuous: false}}]`, `interfaces[0].mac-vlan.promiscuous: false: a MAC-VLAN of mode bridge is promiscuous: remove the field, or set mode to passthru`},
		{`interfaces: [{name: bond0, mac-address: "02:00:00:00:00:0A", link-aggregation: {options: {fail_over_mac: active}}}]`, `interfaces[0].mac-address: 02:00:00:00:00:0A: a bond with fail_over_mac active has the address of its active port: remove one of the two`},
		{`interfaces: [{name: bond0.5, mtu: 1501}]`, `interfaces[0].mtu: 1501: the MTU of bond0 leaves 1500: lower it, or raise that of bond0`},
		{`interfaces: [{name: bond0, mtu: 1400}, {name: bond0.5}]`, `interfaces[1].mtu: 1500: the MTU of bond0 leaves 1400: lower it, or raise that of bond0`},
		{`interfaces: [{name: vx, type: vxlan, mtu: 1451, vxlan: {id: 7, base-iface: eth0}}]`, `interfaces[0].mtu: 1451: the MTU of eth0 leaves 1450: lower it, or raise that of eth0`},
		{`interfaces: [{name: eth0, ipv4: {address: [{ip: "2001:db8::7", prefix-length: 64}]}}]`, `interfaces[0].ipv4.address[0].ip: 2001:db8::7: want an address of IPv4`},
		{`interfaces: [{name: eth0, ipv4: {address: [{ip: 192.0.2, prefix-length: 24}]}}]`, `interfaces[0].ipv4.address[0].ip: "192.0.2": want an IP address`},
		{`interfaces: [{name: eth0, ipv4: {address: [{ip: 192.0.2.7, prefix-length: 33}]}}]`, `interfaces[0].ipv4.address[0].prefix-length: 33: want 0 to 32`},
		{`interfaces: [{name: eth0, ipv6: {address: [{ip: "fd00::1", prefix-length: 64}, {ip: "fd00:0::1", prefix-length: 64}]}}]`, `interfaces[0].ipv6.address[1].ip: fd00:0::1: it is there twice`},
		{`interfaces: [{name: eth0, ipv4: {enabled: false, address: [{ip: 192.0.2.7, prefix-length: 24}]}}]`, `interfaces[0].ipv4.address: the family is not enabled: remove the addresses, or set enabled to true`},
		{`interfaces: [{name: eth0, ipv4: {autoconf: true}}]`, `interfaces[0].ipv4.autoconf: true: routers advertise no addresses of IPv4: set dhcp to true`},
		{`interfaces: [{name: eth0, ipv4: {dhcp-duid: ll}}]`, `interfaces[0].ipv4.dhcp-duid: ll: it is a field of ipv6: write it there, or use dhcp-client-id`},
		{`interfaces: [{name: eth0, ipv6: {dhcp-client-id: ll}}]`, `interfaces[0].ipv6.dhcp-client-id: ll: it is a field of ipv4: write it there, or use dhcp-duid`},
		{`interfaces: [{name: eth0, ipv4: {dhcp: true, token: "::1"}}]`, `interfaces[0].ipv4.token: ::1: it is a field of ipv6: write it there`},
		{`interfaces: [{name: eth0, ipv6: {autoconf: true, token: "2001:db8::1"}}]`, `interfaces[0].ipv6.token: 2001:db8::1: want an address of IPv6 whose first 64 bits are zero, such as ::1`},
		{`interfaces: [{name: eth0, ipv6: {autoconf: true, token: "0.0.0.1"}}]`, `interfaces[0].ipv6.token: 0.0.0.1: want an address of IPv6 whose first 64 bits are zero, such as ::1`},
		{`interfaces: [{name: eth0, ipv6: {dhcp: true, autoconf: false, token: "::1"}}]`, `interfaces[0].ipv6.token: ::1: it is for addresses of autoconfiguration: set autoconf to true, or remove the token`},
		{`interfaces: [{name: eth0, ipv6: {dhcp: true, auto-route-table-id: 50}}]`, `interfaces[0].ipv6.auto-route-table-id: 50: the kernel has routes of router advertisements in the main table alone: remove it, or put the interface into a VRF`},
		{`interfaces: [{name: eth0, ipv4: {dhcp: true, auto-route-metric: -1}}]`, `interfaces[0].ipv4.auto-route-metric: -1: want 0 to 4294967295`},
		{`interfaces: [{name: eth0, wait-ip: both}]`, `interfaces[0].wait-ip: both: want one of any, ipv4, ipv6, ipv4+ipv6`},
		{`interfaces: [{name: eth0, wait-ip: ipv4+ipv6, ipv6: {enabled: false}}]`, `interfaces[0].wait-ip: ipv4+ipv6: IPv6 is not enabled: enable it, or wait for ipv4`},
		{`interfaces: [{name: eth1, controller: bond0, ipv4: {dhcp: true}}]`, `interfaces[0].ipv4.dhcp: true: eth1 is a port of bond0: set it for bond0`},
		{`interfaces: [{name: v, type: vlan, vlan: {base-iface: eth0, id: 5000}}]`, `interfaces[0].vlan.id: 5000: want 0 to 4094`},
		{`interfaces: [{name: v, type: vlan, vlan: {id: 5}}]`, `interfaces[0].vlan.base-iface: missing: making v needs it`},
		{`interfaces: [{name: v, type: vlan, vlan: {base-iface: eth9, id: 5}}]`, `interfaces[0].vlan.base-iface: eth9: no such interface`},
		{`interfaces: [{name: v, type: vlan, vlan: {base-iface: eth3, id: 5}}]`, `interfaces[0].vlan.base-iface: eth3: it is down, and a VLAN of it can't be up: name eth3 too, with state up`},
		{`interfaces: [{name: eth0, state: down}, {name: v, type: vlan, vlan: {base-iface: eth0, id: 5}}]`, `interfaces[1].vlan.base-iface: eth0: it is down: make v absent too, or eth0 up`},
		{`interfaces: [{name: vx, type: vxlan, vxlan: {id: 16777216}}]`, `interfaces[0].vxlan.id: 16777216: want 0 to 16777215`},
		{`interfaces: [{name: vx, type: vxlan, vxlan: {id: 1, destination-port: 65536}}]`, `interfaces[0].vxlan.destination-port: 65536: want 1 to 65535`},
		{`interfaces: [{name: vrf0, type: vrf}]`, `interfaces[0].vrf.route-table-id: missing: making vrf0 needs it`},
		{`interfaces: [{name: bond1, type: bond}]`, `interfaces[0].link-aggregation.mode: missing: making bond1 needs it`},
		{`interfaces: [{name: bond0, link-aggregation: {mode: quick}}]`, `interfaces[0].link-aggregation.mode: quick: want one of balance-rr, active-backup, balance-xor, broadcast, 802.3ad, balance-tlb, balance-alb`},
		{`interfaces: [{name: bond0, link-aggregation: {options: {lacp_rate: quick}}}]`, `interfaces[0].link-aggregation.options.lacp_rate: quick: want one of slow, fast`},
		{`interfaces: [{name: bond0, link-aggregation: {options: {miimon: often}}}]`, `interfaces[0].link-aggregation.options.miimon: often: want a number, 0 to 2147483647`},
		{`interfaces: [{name: bond0, link-aggregation: {options: {lp_interval: 0}}}]`, `interfaces[0].link-aggregation.options.lp_interval: 0: want a number, 1 to 2147483647`},
		{`interfaces: [{name: bond0, link-aggregation: {options: {arp_ip_target: "192.0.2.1,fd00::1"}}}]`, `interfaces[0].link-aggregation.options.arp_ip_target: 192.0.2.1,fd00::1: want addresses of IPv4, with commas between`},
		{`interfaces: [{name: bond0, link-aggregation: {options: {ad_actor_system: mac}}}]`, `interfaces[0].link-aggregation.options.ad_actor_system: mac: want six octets in hex with colons`},
		{`interfaces: [{name: bond0, link-aggregation: {options: {ad_actor_system: "01:00:5E:00:0f:01"}}}]`, `interfaces[0].link-aggregation.options.ad_actor_system: 01:00:5E:00:0F:01: want no address of a group`},
		{`interfaces: [{name: bond0, link-aggregation: {options: {miimon: 100, arp_interval: 10}}}]`, `interfaces[0].link-aggregation.options.arp_interval: 10: a bond with miimon watches its links already: set one of them to 0`},
		{`interfaces: [{name: bond0, copy-mac-from: lo}]`, `interfaces[0].copy-mac-from: lo: no such interface, or none with a MAC address`},
		{`interfaces: [{name: bond0, copy-mac-from: eth0, mac-address: "02:00:00:00:00:02"}]`, `interfaces[0].copy-mac-from: eth0: its MAC address is 02:00:00:00:00:01: remove one of mac-address and copy-mac-from`},
		{`interfaces: [{name: br0, bridge: {options: {multicast-router: maybe, group-addr: x}}}]`, "interfaces[0].bridge.options.multicast-router: maybe: want one of disabled, auto, enabled\ninterfaces[0].bridge.options.group-addr: x: want six octets in hex with colons"},
		{`interfaces: [{name: i, type: ipvlan, ipvlan: {base-iface: eth0, private: true, vepa: true}}]`, `interfaces[0].ipvlan.vepa: true: private ports do not reach each other by the switch either: set one of private and vepa`},
		{`{interfaces: [{name: eth2, ipv4: {enabled: false}}], routes: {config: [{destination: 192.0.2.0/24, next-hop-interface: eth2}]}}`, `routes.config[0].next-hop-interface: eth2: IPv4 is not enabled there`},
		{`routes: {config: [{destination: 192.0.2.0/24, next-hop-interface: eth0, mtu: 0}]}`, `routes.config[0].mtu: 0: want 1 to 2147483647`},
		{`interfaces: [{name: bond0, link-aggregation: {options: {active_slave: eth1}}}]`, `interfaces[0].link-aggregation.options.active_slave: eth1: no option that the engine knows (the driver chooses the active port; primary is its preference): remove it`},
		{`interfaces: [{name: bond0, link-aggregation: {options: {speed: fast}}}]`, `interfaces[0].link-aggregation.options.speed: fast: no option that the engine knows: remove it`},
		{`interfaces: [{name: bond0, link-aggregation: {options: {primary: eth2}}}]`, `interfaces[0].link-aggregation.options.primary: eth2: it is no port of bond0`},
		{`interfaces: [{name: bond0, link-aggregation: {port: [eth1, eth9]}}]`, `interfaces[0].link-aggregation.port[1]: eth9: no such interface: declare it, and not as absent`},
		{`interfaces: [{name: bond0, link-aggregation: {port: [eth1]}}, {name: br0, bridge: {port: [{name: eth1}]}}]`, `interfaces[1].bridge.port[0].name: eth1: it is a port of bond0 already (interfaces[0].link-aggregation.port[0])`},
		{`interfaces: [{name: bond0, link-aggregation: {port: [eth1]}}, {name: eth1, controller: ""}]`, `interfaces[1].controller: "": bond0 lists eth1 as its port (interfaces[0].link-aggregation.port[0])`},
		{`interfaces: [{name: bond0, link-aggregation: {port: []}}, {name: eth1, controller: bond0}]`, `interfaces[1].controller: "bond0": bond0 does not list eth1 as its port (interfaces[0])`},
		{`interfaces: [{name: eth2, controller: eth0}]`, `interfaces[0].controller: eth0: it is of type ethernet, which has no ports`},
		{`interfaces: [{name: eth2, controller: br9}]`, `interfaces[0].controller: br9: no such interface for the port eth2: declare it, and not as absent`},
		{`interfaces: [{name: br1, type: linux-bridge, controller: br0}]`, `interfaces[0].controller: br1 is of type linux-bridge, and can't be a port of br0, which is of type linux-bridge`},
		{`interfaces: [{name: eth2, controller: br0, ipv4: {address: [{ip: 192.0.2.9, prefix-length: 24}]}}]`, `interfaces[0].ipv4.address: eth2 is a port of br0: give the addresses to br0`},
		{`interfaces: [{name: br0, bridge: {port: [{name: eth2, vlan: {mode: access, tag: 5, trunk-tags: [{id: 6}]}}]}}]`, `interfaces[0].bridge.port[0].vlan.trunk-tags: an access port has no trunk tags: remove them, or set mode to trunk`},
		{`interfaces: [{name: br0, bridge: {port: [{name: eth2, vlan: {mode: trunk, trunk-tags: [{id-range: {min: 9, max: 5}}]}}]}}]`, `interfaces[0].bridge.port[0].vlan.trunk-tags[0].id-range: 9 to 5: want min at most max`},
		{`interfaces: [{name: br0, bridge: {port: [{name: eth2, vlan: {mode: access}}]}}]`, `interfaces[0].bridge.port[0].vlan.tag: missing: an access port needs one`},
		{`interfaces: [{name: br0, bridge: {port: [{name: eth2, vlan: {mode: trunk, tag: 5}}]}}]`, `interfaces[0].bridge.port[0].vlan.tag: 5: a trunk has one for untagged frames only: set enable-native to true, or remove tag`},
		{`interfaces: [{name: eth0, ethernet: {sr-iov: {total-vfs: -1}}}]`, `interfaces[0].ethernet.sr-iov.total-vfs: -1: want 0 or more`},
		{`interfaces: [{name: eth0, ethernet: {sr-iov: {total-vfs: 2, vfs: [{id: 2}]}}}]`, `interfaces[0].ethernet.sr-iov.vfs[0].id: 2: want less than total-vfs, 2`},
		{`interfaces: [{name: bond0, state: absent}, {name: bond0.5}]`, `interfaces[1].vlan.base-iface: bond0: it is absent or down: make bond0.5 absent too, or keep bond0`},
		{`interfaces: [{name: va, state: absent}, {name: vb}]`, `interfaces[1]: vb is up, and its other end va is absent or down: make both absent, or neither`},
		{`interfaces: [{name: va, state: absent}, {name: br0, bridge: {port: [{name: vb}]}}]`, `interfaces[1].bridge.port[0].name: vb: it goes with its base or its other end: keep that, or take vb off br0`},
		{`interfaces: [{name: vc, type: veth}]`, `interfaces[0].veth.peer: missing: making a pair needs the name of the other end`},
		{`interfaces: [{name: vc, type: veth, veth: {peer: eth0}}]`, `interfaces[0].veth.peer: eth0: it exists, and is no end of this pair: make it absent first, or choose another name`},
		{`interfaces: [{name: vc, type: veth, veth: {peer: vd}}, {name: vd, type: veth, veth: {peer: ve}}]`, "interfaces[0].veth.peer: vd: it is the other end of ve (interfaces[1])"},
		{`interfaces: [{name: bond0, controller: br0}, {name: bond0.5, controller: bond0}]`, `interfaces[0]: bond0 is made of itself, by way of its ports or its base`},
		{`routes: {config: [{next-hop-interface: eth0}]}`, `routes.config[0].destination: missing: want a prefix, such as 198.51.100.0/24`},
		{`routes: {config: [{destination: 192.0.2.0/33, next-hop-interface: eth0}]}`, `routes.config[0].destination: 192.0.2.0/33: want a prefix, such as 198.51.100.0/24`},
		{`routes: {config: [{destination: 192.0.2.0/24}]}`, `routes.config[0].next-hop-interface: missing: a route needs it, but for one of route-type blackhole, unreachable or prohibit`},
		{`routes: {config: [{destination: 192.0.2.0/24, next-hop-interface: eth9}]}`, `routes.config[0].next-hop-interface: eth9: no such interface`},
		{`routes: {config: [{destination: 192.0.2.0/24, next-hop-interface: eth3}]}`, `routes.config[0].next-hop-interface: eth3: it is down`},
		{`routes: {config: [{destination: 192.0.2.0/24, next-hop-interface: eth1}]}`, `routes.config[0].next-hop-interface: eth1: it is a port of bond0: name that`},
		{`routes: {config: [{destination: 192.0.2.0/24, next-hop-interface: eth0, next-hop-address: "fd00::1"}]}`, `routes.config[0].next-hop-address: fd00::1: want an address of IPv4, as the destination is`},
		{`routes: {config: [{destination: 192.0.2.0/24, route-type: blackhole, next-hop-interface: eth0}]}`, `routes.config[0].route-type: blackhole: such a route has no next hop: remove next-hop-interface and next-hop-address`},
		{`routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eth2}]}`, `routes.config[0]: 0.0.0.0/0: table 254 has another route with that destination and metric: delete it with state absent, or choose another metric`},
		{`routes: {config: [{destination: 192.0.2.0/24, next-hop-interface: eth0, metric: -2}]}`, `routes.config[0].metric: -2: want 0 to 4294967295`},
		{`routes: {config: [{destination: 192.0.2.0/24, next-hop-interface: eth0, vrf-name: eth1}]}`, `routes.config[0].vrf-name: eth1: no such VRF`},
		{`{routes: {config: [{destination: 192.0.2.0/24, next-hop-interface: eth2, vrf-name: r, table-id: 5}]}, interfaces: [{name: r, type: vrf, vrf: {route-table-id: 9}}]}`, `routes.config[0].table-id: 5: the table of r is 9: remove one of table-id and vrf-name`},
		{`route-rules: {config: [{priority: 5}]}`, `route-rules.config[0]: want at least one of family, ip-from, ip-to, iif and fwmark`},
		{`route-rules: {config: [{ip-from: 192.0.2.0/24, ip-to: "fd00::/8"}]}`, `route-rules.config[0].ip-to: fd00::/8: want a prefix of ipv4, as ip-from is`},
		{`route-rules: {config: [{ip-from: 192.0.2.0/24, family: ipv6}]}`, `route-rules.config[0].ip-from: 192.0.2.0/24: want a prefix of ipv6, which is the family`},
		{`dns-resolver: {config: {server: [one]}}`, `dns-resolver.config.server[0]: "one": want an IP address`},
		{`dns-resolver: {config: {options: [rotate, nope]}}`, `dns-resolver.config.options[1]: "nope": want one of debug, edns0, inet6, ip6-bytestring, ip6-dotint, no-aaaa, no-check-names, no-ip6-dotint, no-reload, no-tld-query, rotate, single-request, single-request-reopen, trust-ad, use-vc, ndots:N, timeout:N, attempts:N`},
		{`dns-resolver: {config: {search: ["a b"]}}`, `dns-resolver.config.search[0]: "a b": want one word without spaces`},
	} {
		_, err := target.Resolve(parse(t, c.desired), parse(t, host))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.desired, err, c.want)
		}
	}
}

func TestResolve_SeveralErrors_ReportedTogether(t *testing.T) {
	_, err := target.Resolve(parse(t, `
interfaces: [{name: eth9, type: ethernet}, {name: v, type: vlan, vlan: {base-iface: eth0, id: 5000}}]
routes: {config: [{destination: all}]}
route-rules: {config: [{priority: 5}]}`), parse(t, host))
	const want = 4
	if err == nil || strings.Count(err.Error(), "\n")+1 != want {
		t.Errorf("want %d errors: %v", want, err)
	}
}

func TestResolve_ThousandInterfacesExceeded_Refused(t *testing.T) {
	desired := &document.State{}
	for n := range 1001 {
		desired.Interfaces = append(desired.Interfaces, document.Interface{Name: fmt.Sprint("d", n), Type: document.Dummy})
	}
	_, err := target.Resolve(desired, parse(t, host))
	if err == nil || err.Error() != "interfaces: 1001 of them: want at most 1000" {
		t.Error(err)
	}
	desired.Interfaces = desired.Interfaces[:1000]
	if _, err := target.Resolve(desired, parse(t, host)); err != nil {
		t.Errorf("a thousand: %v", err)
	}
}

func TestResolve_FiveNestedControllers_Refused(t *testing.T) {
	const text = `
interfaces:
- {name: eth2, controller: b1}
- {name: b1, type: bond, link-aggregation: {mode: balance-rr}, controller: r1}
- {name: r1, type: linux-bridge, controller: b2}
- {name: b2, type: bond, link-aggregation: {mode: balance-rr}, controller: r2}
- {name: r2, type: linux-bridge, controller: vrf0}
- {name: vrf0, type: vrf, vrf: {route-table-id: 9}}`
	_, err := target.Resolve(parse(t, text), parse(t, host))
	const want = "interfaces[0].controller: more than 4 controllers above each other: eth2, b1, r1, b2, r2, vrf0"
	if err == nil || err.Error() != want {
		t.Error(err)
	}
	_, err = target.Resolve(parse(t, strings.Replace(text, "eth2, controller: b1", "eth2", 1)), parse(t, host))
	if err != nil {
		t.Errorf("four: %v", err)
	}
}

// TestResolve_SmallMTUAndPromiscuity_AcceptedWherePossible: and the target has no setting that the
// kernel never shows.
func TestResolve_SmallMTUAndPromiscuity_AcceptedWherePossible(t *testing.T) {
	for _, text := range []string{
		`interfaces: [{name: eth0, mtu: 1279, ipv6: {enabled: false}}]`, `interfaces: [{name: eth0, mtu: 1280}]`,
		`interfaces: [{name: d, type: dummy, mtu: 1279}]`, `interfaces: [{name: eth0, mtu: 1279, state: down}]`,
	} {
		if _, err := target.Resolve(parse(t, text), parse(t, host)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for mode, want := range map[string]*bool{"bridge": nil, "passthru": new(true)} {
		text := `interfaces: [{name: m, type: mac-vlan, mac-vlan: {base-iface: eth2, mode: ` + mode + `, promiscuous: true}}]`
		got, err := target.Resolve(parse(t, text), parse(t, host))
		if err != nil {
			t.Errorf("%s: %v", mode, err)
			continue
		}
		if is := got.Interfaces[0].MACVLAN.Promiscuous; (is == nil) != (want == nil) || is != nil && *is != *want {
			t.Errorf("mode %s: promiscuous is %v", mode, is)
		}
	}
}
