// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package randomhost

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
)

// Maker writes random commands of iproute2, and documents. Some make no sense for the host:
// the kernel refuses them.
type Maker struct {
	*rand.Rand
	// Changes reports that the commands stand for a change of Alioth: they write no routes
	// of protocols of others.
	Changes bool
}

// protocol returns one of some protocols of routes; a change has its own for all of them.
func (m Maker) protocol(list ...string) string {
	if m.Changes {
		return ""
	}
	return "proto " + m.one(list...)
}

func (m Maker) one(list ...string) string { return list[m.IntN(len(list))] }

func (m Maker) device() string {
	return m.one("eth1", "eth2", "eth3", "br0", "br1", "eth1.10", "br0.20", "mv0", "vx0", "bond0", "vrf0", "dummy0")
}
func (m Maker) port() string { return m.one("eth1", "eth2", "eth3", "vx0", "eth1.10", "dummy0") }
func (m Maker) four() string { return fmt.Sprintf("192.0.%d.%d", m.IntN(3), 1+m.IntN(6)) }
func (m Maker) six() string  { return fmt.Sprintf("fd00:%d::%d", m.IntN(3), 1+m.IntN(6)) }

func (m Maker) link() string {
	return m.one(
		"link add br0 type bridge",
		"link add br1 type bridge vlan_filtering 1 stp_state 1",
		"link add br1 type bridge stp_state 1",
		"link add link eth1 name eth1.10 type vlan id 10",
		"link add link br0 name br0.20 type vlan id 20 reorder_hdr off",
		"link add link eth2 name mv0 type macvlan mode "+m.one("bridge", "private", "vepa"),
		"link add vx0 type vxlan id 7 remote 192.0.2.9 dstport 4789 dev eth3",
		"link add dummy0 type dummy",
		"link add bond0 type bond mode "+m.one(
			"active-backup miimon 100",
			"802.3ad lacp_rate fast",
			"balance-rr arp_interval 100 arp_ip_target 192.0.2.9",
			"balance-xor xmit_hash_policy layer3+4",
		),
		"link add vrf0 type vrf table 50",
	)
}

func (m Maker) attribute() string {
	d := m.device()
	return m.one(
		"link set "+d+" up",
		"link set "+d+" up",
		"link set "+d+" down",
		fmt.Sprintf("link set %s mtu %d", d, m.number(1000, 1280, 1400, 1450, 1500, 9000)),
		"link set "+d+" alias "+m.one(
			"a",
			"something",
		),
		fmt.Sprintf("link set %s txqueuelen %d", d, 1+m.IntN(5)),
		"link set "+d+" promisc "+m.one("on", "off"),
		"link set "+d+" allmulticast "+m.one(
			"on",
			"off",
		),
		fmt.Sprintf("link set %s address 02:00:00:00:01:%02x", d, m.IntN(5)),
		"link set "+m.port()+" master "+m.one("br0", "br1"),
		"link set "+m.port()+" nomaster",
		"link set "+m.one("eth1", "eth2", "dummy0", "br0")+" master vrf0",
		"link set "+m.one("eth2", "eth3", "dummy0")+" down master bond0",
		fmt.Sprintf(
			"link set bond0 type bond miimon %d updelay %d",
			m.number(0, 100, 200),
			m.number(0, 100, 200),
		),
		"link set bond0 type bond arp_interval 200 arp_ip_target "+m.four(),
		"link set bond0 type bond primary "+m.one(
			"eth2",
			"eth3",
		),
		"link set eth2 type bond_slave queue_id "+strconv.Itoa(m.IntN(3)),
		fmt.Sprintf(
			"link set %s type bridge ageing_time %d stp_state %d group_fwd_mask %d priority %d",
			m.one("br0", "br1"),
			100*m.IntN(9),
			m.IntN(2),
			8*m.IntN(2),
			4096*m.IntN(4),
		),
		fmt.Sprintf("link set %s type bridge vlan_filtering %d", m.one("br0", "br1"), m.IntN(2)),
		fmt.Sprintf(
			"link set %s type bridge_slave cost %d hairpin %s isolated %s learning %s",
			m.port(),
			1+m.IntN(9),
			m.one("on", "off"),
			m.one("on", "off"),
			m.one("on", "off"),
		),
		"link set eth1.10 type vlan loose_binding "+m.one(
			"on",
			"off",
		),
		"link set mv0 type macvlan mode "+m.one("bridge", "private"),
		"link set "+d+" group "+strconv.Itoa(m.IntN(3)),
		fmt.Sprintf(
			"link set %s addrgenmode %s",
			d,
			m.one("eui64", "none"),
		),
		"link set "+d+" arp "+m.one("on", "off"),
		"link set "+d+" multicast "+m.one("on", "off"),
	)
}

func (m Maker) number(list ...int) int { return list[m.IntN(len(list))] }

func (m Maker) address() string {
	d := m.device()
	return m.one(
		fmt.Sprintf(
			"addr add %s/%d dev %s",
			m.four(),
			m.number(24, 24, 32, 16),
			d,
		),
		fmt.Sprintf("addr add %s/24 dev %s label %s:%d", m.four(), d, d, m.IntN(3)),
		fmt.Sprintf(
			"addr add %s/24 dev %s valid_lft 3000 preferred_lft 2000",
			m.four(),
			d,
		),
		fmt.Sprintf("addr add %s peer %s/32 dev %s", m.four(), m.four(), d),
		fmt.Sprintf(
			"addr add %s/24 brd + dev %s scope %s noprefixroute",
			m.four(),
			d,
			m.one("global", "link", "host"),
		),
		fmt.Sprintf("addr add %s/24 dev %s metric 77", m.four(), d),
		fmt.Sprintf(
			"addr add %s/%d dev %s",
			m.six(),
			m.number(64, 128),
			d,
		),
		fmt.Sprintf("addr add %s/64 dev %s nodad noprefixroute", m.six(), d),
		fmt.Sprintf(
			"addr add %s/64 dev %s valid_lft 3000 preferred_lft %d",
			m.six(),
			d,
			m.number(0, 2000),
		),
		fmt.Sprintf("addr add %s/64 dev %s proto 44", m.six(), d),
	)
}

func (m Maker) route() string {
	to, metric := fmt.Sprintf("198.18.%d.0/24", m.IntN(5)), m.IntN(3)*50
	to6 := fmt.Sprintf("fd01:%d::/64", m.IntN(5))
	command := m.one(
		fmt.Sprintf(
			"route append %s via %s dev %s onlink %s metric %d",
			to,
			m.four(),
			m.device(),
			m.protocol("dhcp", "bird", "static", "80", "kernel"),
			metric,
		),
		fmt.Sprintf(
			"route append default via %s dev %s onlink %s",
			m.four(),
			m.device(),
			m.protocol("dhcp", "boot"),
		),
		fmt.Sprintf("route append %s via %s", to, m.four()),
		fmt.Sprintf("route append %s dev %s src %s metric %d table %d", to, m.device(), m.four(), metric, m.number(254, 300)),
		fmt.Sprintf(
			"route append %s nexthop via %s dev %s weight 1 onlink nexthop via %s dev %s weight 3 onlink",
			to,
			m.four(),
			m.device(),
			m.four(),
			m.device(),
		),
		fmt.Sprintf(
			"route append %s via %s dev %s onlink mtu lock 1350 advmss 1300 initcwnd 20 quickack 1",
			to,
			m.four(),
			m.device(),
		),
		fmt.Sprintf("route append %s via %s dev %s onlink realm 7 tos 0x10", to, m.four(), m.device()),
		fmt.Sprintf(
			"route append %s %s metric %d",
			m.one("blackhole", "unreachable", "prohibit"),
			to,
			metric,
		),
		fmt.Sprintf("route append %s nhid %d", to, 1+m.IntN(3)),
		fmt.Sprintf(
			"route append %s via %s dev %s onlink %s metric %d",
			to6,
			m.six(),
			m.device(),
			m.protocol("ra", "80", "static"),
			50+metric,
		),
		fmt.Sprintf(
			"route append %s dev %s src %s expires 1000",
			to6,
			m.device(),
			m.six(),
		),
		fmt.Sprintf(
			"route append %s nexthop via %s dev %s onlink nexthop via %s dev %s onlink",
			to6,
			m.six(),
			m.device(),
			m.six(),
			m.device(),
		),
		fmt.Sprintf("route append %s via inet6 %s dev %s onlink", to, m.six(), m.device()),
	)
	if m.Changes {
		command = strings.Replace(command, "append", "append proto static", 1)
	}
	return command
}

func (m Maker) other() string {
	return m.one(
		fmt.Sprintf(
			"nexthop add id %d via %s dev %s onlink",
			1+m.IntN(2),
			m.four(),
			m.device(),
		),
		"nexthop add id 3 group 1/2",
		"nexthop add id 3 group 1,5",
		fmt.Sprintf(
			"neigh replace %s dev %s lladdr 02:00:00:00:02:%02x",
			m.four(),
			m.device(),
			m.IntN(5),
		),
		fmt.Sprintf("neigh replace %s dev %s lladdr 02:00:00:00:02:09 nud permanent", m.six(), m.device()),
		fmt.Sprintf("neigh add proxy %s dev %s", m.four(), m.device()),
		fmt.Sprintf("rule add from %s table 300 priority %d", m.four(), 1000+m.IntN(3)),
	)
}

func (m Maker) removal() string {
	d := m.device()
	gone := "link del " + m.one(
		"br0",
		"br1",
		"eth1.10",
		"eth1.10",
		"br0.20",
		"mv0",
		"vx0",
		"eth3",
		"bond0",
		"bond0",
		"vrf0",
		"dummy0",
	)
	return m.one(
		gone,
		gone,
		gone,
		"addr flush dev "+d,
		"link set "+d+" down",
		"route flush dev "+d,
		fmt.Sprintf(
			"route del 198.18.%d.0/24",
			m.IntN(5),
		),
		"neigh flush dev "+d+" nud permanent",
		"route del default",
		"nexthop del id "+strconv.Itoa(1+m.IntN(3)),
		fmt.Sprintf("addr del %s/24 dev %s", m.four(), d),
	)
}

func (m Maker) bridge() string {
	if !m.Changes && m.IntN(4) == 0 { // No document says it.
		return fmt.Sprintf("fdb add 02:00:00:00:03:%02x dev %s master static", m.IntN(5), m.port())
	}
	return m.one(
		fmt.Sprintf(
			"vlan add dev %s vid %d",
			m.port(),
			2+m.IntN(4),
		),
		fmt.Sprintf("vlan add dev %s vid %d pvid untagged", m.port(), 2+m.IntN(4)),
		fmt.Sprintf("vlan del dev %s vid 1", m.port()),
		fmt.Sprintf("vlan add dev %s vid %d self", m.one("br0", "br1"), 2+m.IntN(3)),
	)
}

// queue returns a command about queueing disciplines, which no document says.
func (m Maker) queue() string {
	d := m.device()
	return m.one(
		"qdisc add dev "+d+" clsact",
		"qdisc add dev "+d+" root handle 5: pfifo limit 77",
		"qdisc add dev "+d+" root handle 6: tbf rate 1mbit burst 5kb latency 70ms",
		"qdisc add dev "+d+" root handle 1: htb default 10",
		"class add dev "+d+" parent 1: classid 1:1 htb rate 9mbit",
		"class add dev "+d+" parent 1:1 classid 1:10 htb rate 1mbit ceil 2mbit prio 1",
		"qdisc add dev "+d+" parent 1:10 handle 20: bfifo limit 9000",
		"qdisc add dev "+d+" root handle 7: fq_codel limit 300",
		"qdisc add dev "+d+" root handle 8: prio bands 4",
	)
}

func (m Maker) setting() setting {
	name := m.one(
		"ipv4/conf/%s/rp_filter",
		"ipv4/conf/%s/arp_ignore",
		"ipv4/conf/%s/forwarding",
		"ipv6/conf/%s/accept_ra",
		"ipv6/conf/%s/disable_ipv6",
		"ipv4/neigh/%s/retrans_time_ms",
		"ipv6/conf/%s/use_tempaddr",
	)
	return setting{fmt.Sprintf(name, m.device()), strconv.Itoa(m.IntN(2))}
}

// times returns some results of a function.
func times[T any](m Maker, most int, make func() T) (list []T) {
	for range m.IntN(most + 1) {
		list = append(list, make())
	}
	return list
}

// Stage is a sequence of commands of one program after the other.
type Stage struct {
	ip, bridge []string
	settings   []setting
	tc         []string
}

// Host returns commands that furnish a host.
func (m Maker) Host() Stage {
	return Stage{
		ip: concat(
			times(m, 8, m.link),
			times(m, 14, m.attribute),
			times(m, 12, m.address),
			times(m, 5, m.other),
			times(m, 12, m.route),
			times(m, 3, m.other),
		),
		bridge: times(m, 6, m.bridge), settings: times(m, 4, m.setting), tc: times(m, 6, m.queue),
	}
}

// Change returns commands that change one, as a document does it and otherwise.
func (m Maker) Change() Stage {
	mixed := func() string {
		return [](func() string){m.link, m.attribute, m.address, m.route, m.removal, m.removal, m.attribute}[m.IntN(7)]()
	}
	return Stage{ip: times(m, 12, mixed), bridge: times(m, 2, m.bridge), settings: times(m, 2, m.setting)}
}

// Others returns commands of others while a change is open. Their objects have the number 77.
func (m Maker) Others() Stage {
	one := func() string {
		d := m.device()
		return m.one(
			fmt.Sprintf("addr add 198.51.77.%d/%d dev %s", 1+m.IntN(6), m.number(24, 32), d),
			fmt.Sprintf(
				"addr add fd77:%d::%d/64 dev %s",
				m.IntN(3),
				1+m.IntN(6),
				d,
			),
			fmt.Sprintf("addr add fd77:%d::%d/128 dev %s nodad", m.IntN(3), 1+m.IntN(6), d),
			fmt.Sprintf(
				"route append 198.18.77.0/24 via 198.51.77.9 dev %s onlink proto 77 metric %d",
				d,
				m.IntN(3),
			),
			fmt.Sprintf("route append fd77:9::/64 via fd77::9 dev %s onlink proto 77 metric %d", d, 50+m.IntN(3)),
			fmt.Sprintf(
				"neigh replace 198.51.77.%d dev %s lladdr 02:00:00:00:77:%02x nud permanent",
				1+m.IntN(6),
				d,
				m.IntN(5),
			),
			fmt.Sprintf("neigh replace fd77::%d dev %s lladdr 02:00:00:00:77:%02x nud permanent", 1+m.IntN(6), d, m.IntN(5)),
			fmt.Sprintf("nexthop add id 77 via 198.51.77.9 dev %s onlink", d),
			"route append 198.18.77.0/25 nhid 77 proto 77",
		)
	}
	entry := func() string {
		return fmt.Sprintf("fdb add 02:00:00:00:77:%02x dev %s master static", m.IntN(5), m.port())
	}
	return Stage{ip: times(m, 12, one), bridge: times(m, 2, entry)}
}

// Losses returns commands after which the kernel drops objects of others, like the requests of an
// undo.
func (m Maker) Losses() Stage {
	return Stage{ip: times(m, 6, func() string {
		return m.one(
			"link set "+m.device()+" down",
			"link set "+m.device()+" down",
			"link set "+m.port()+" nomaster",
			"link set "+m.device()+" mtu 1000",
			"route flush dev "+m.device(),
		)
	})}
}

// IsTheirs reports whether a line of a Look is about what Others adds.
func IsTheirs(line string) bool {
	for _, mark := range []string{"fd77:", "198.51.77.", "198.18.77.", "02:00:00:00:77:", `"id":77`} {
		if strings.Contains(line, mark) {
			return true
		}
	}
	return false
}

// Addresses are those that Change may add, by device.
func Addresses() map[string][]netip.Prefix {
	all := map[string][]netip.Prefix{}
	add := func(format string, lengths ...int) {
		for network := range 3 {
			for n := range 6 {
				for _, length := range lengths {
					prefix := netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf(format, network, 1+n)), length)
					for _, device := range Devices() {
						all[device] = append(all[device], prefix)
					}
				}
			}
		}
	}
	add("192.0.%d.%d", 16, 24, 32)
	add("fd00:%d::%d", 64, 128)
	return all
}

func concat(lists ...[]string) (all []string) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}
