// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/randomhost"
	"github.com/alioth-net/alioth/test/waits"
)

// strange has hosts with settings that the commands of package randomhost do not make.
func strange() map[string]struct{ host, change, shown string } {
	return map[string]struct{ host, change, shown string }{
		"a bridge without default VLAN that filters": {
			host: `ip link add br0 type bridge vlan_filtering 1 vlan_default_pvid 0
ip link set eth1 master br0
bridge vlan add dev eth1 vid 7`,
			change: `ip link del br0`,
		},
		"the default VLAN of a bridge that filters": {
			host: `ip link add br0 type bridge vlan_filtering 1 vlan_default_pvid 9
ip link set eth1 master br0`,
			change: `ip link set br0 type bridge vlan_filtering 0 vlan_default_pvid 8 vlan_filtering 1`,
		},
		"a group of next hops that lost one": {
			host: `ip link set eth1 up
ip link set eth2 up
ip addr add 192.0.2.10/24 dev eth1
ip nexthop add id 5 via 192.0.2.1 dev eth1
ip addr add 198.51.100.10/24 dev eth2
ip nexthop add id 6 via 198.51.100.1 dev eth2
ip nexthop add id 7 group 5/6,3
ip route add 198.18.9.0/24 nhid 7`,
			change: `ip link set eth1 down`,
		},
		"a resilient group of next hops": {
			host: `ip link set eth1 up
ip addr add 192.0.2.10/24 dev eth1
ip nexthop add id 5 via 192.0.2.1 dev eth1
ip nexthop add id 7 group 5 type resilient buckets 32 idle_timer 60
ip route add 198.18.9.0/24 nhid 7`,
			change: `ip link set eth1 down`,
		},
		"a route before one that reaches nothing": {
			host: `ip link set eth1 up
ip addr add 192.0.2.10/24 dev eth1
ip route append 198.18.2.0/24 via 192.0.2.1 dev eth1 onlink
ip route append unreachable 198.18.2.0/24`,
			change: `ip link set eth1 down`,
		},
		"a gateway of IPv6 on a device without IPv6": {
			host: `ip link set eth1 up
ip route add 198.18.2.0/24 via inet6 fd00::5 dev eth1 onlink
sysctl -qw net.ipv6.conf.eth1.disable_ipv6=1`,
			change: `ip route del 198.18.2.0/24`,
		},
		"several such gateways": {
			host: `ip link set eth1 up
ip link set eth2 up
ip route add 198.18.2.0/24 nexthop via inet6 fd00::5 dev eth1 onlink nexthop via inet6 fd00::6 dev eth2 onlink
sysctl -qw net.ipv6.conf.eth1.disable_ipv6=1
sysctl -qw net.ipv6.conf.eth2.disable_ipv6=1`,
			change: `ip link set eth1 down`,
		},
		"a route of IPv6 with a device that has lost IPv6": {
			host: `ip link set eth1 up
ip link set eth2 up
ip -6 route add fd01::/64 nexthop via fd00::5 dev eth1 onlink nexthop via fd00::6 dev eth2 onlink
sysctl -qw net.ipv6.conf.eth2.disable_ipv6=1`,
			change: `ip link set eth1 down`,
		},
		"routes with a device that is down": {
			host: `ip link set eth1 up
ip link set eth2 up
ip -6 route add fd01::/64 nexthop via fd00::5 dev eth1 onlink nexthop via fd00::6 dev eth2 onlink
ip addr add 192.0.2.10/24 dev eth1
ip addr add 192.0.2.11/24 dev eth2
ip route add 198.18.0.0/24 nexthop via 192.0.2.5 dev eth1 onlink nexthop via 192.0.2.6 dev eth2 onlink
ip link set eth2 down`,
			change: `ip link set eth1 down`,
		},
		"a bridge that lost its last port": {
			host: `ip link add br0 type bridge
ip link set eth1 master br0
ip link set eth1 nomaster
ip link set br0 up mtu 1400
ip addr add 192.0.2.10/24 dev br0`,
			change: `ip link del br0`,
		},
		"a bridge that lost its last port, and got an address": {
			host: `ip link add br0 type bridge
ip link set eth1 master br0
ip link set eth1 nomaster
ip link add link br0 name vx0 type macvlan mode bridge`,
			change: `ip link set br0 address 02:00:00:00:00:50`,
		},
		"a route of IPv6 with an MTU above that of the device": {
			host: `ip link set eth1 up
ip -6 route add fd01::/64 via fe80::9 dev eth1 mtu 1450 proto bird`,
			change: `ip link set eth1 mtu 1300`,
		},
		"a route of IPv6 that joined one of a daemon": {
			host: `ip link set eth1 up
ip -6 route append fd01:1::/64 via fd00::1 dev eth1 onlink proto 80 metric 50`,
			change: `ip -6 route append fd01:1::/64 via fd00::2 dev eth1 onlink proto static metric 50`,
		},
		"alternative names": {
			host: `ip link add br0 type bridge
ip link property add dev br0 altname uplink-of-the-rack altname bridge-zero`,
			change: `ip link del br0`,
		},
		"alternative names that change": {
			host: `ip link property add dev eth1 altname first altname second
ip link add br0 type bridge`,
			change: `ip link property del dev eth1 altname second
ip link property add dev br0 altname second
ip link property add dev eth1 altname added`,
		},
		"tunnels of VLANs": {
			host: `ip link add br0 type bridge vlan_filtering 1
ip link add vx0 type vxlan external dstport 4789
ip link set vx0 master br0
ip link set vx0 type bridge_slave vlan_tunnel on
bridge vlan add dev vx0 vid 5
bridge vlan add dev vx0 vid 5 tunnel_info id 5000`,
			change: `ip link del br0`,
			shown:  `bridge vlan tunnelshow`,
		},
		"tunnels of VLANs of a device that is deleted": {
			host: `ip link add br0 type bridge vlan_filtering 1
ip link add vx0 type vxlan external dstport 4789
ip link set vx0 master br0
ip link set vx0 type bridge_slave vlan_tunnel on
bridge vlan add dev vx0 vid 5
bridge vlan add dev vx0 vid 5 tunnel_info id 5000`,
			change: `ip link del vx0`,
			shown:  `bridge vlan tunnelshow`,
		},
		"groups of a bridge": {
			host: `ip link add br0 type bridge mcast_snooping 1
ip link set br0 up
ip link set eth1 up
ip link set eth1 master br0
bridge mdb add dev br0 port eth1 grp 239.1.2.3 permanent
bridge mdb add dev br0 port eth1 grp ff05::99 permanent
bridge mdb add dev br0 port eth1 grp 239.1.2.4 src 192.0.2.9 permanent`,
			change: `ip link set eth1 nomaster`,
			shown:  `bridge mdb show dev br0`,
		},
		"a token": {
			host:   "ip link add br0 type bridge\nip token set ::5 dev br0",
			change: "ip link del br0",
			shown:  `ip token list`,
		},
		"sizes of segments": {
			host:   "ip link add br0 type bridge\nip link set br0 gso_max_size 50000 gro_max_size 40000",
			change: "ip link del br0",
		},
		"rules of one priority": {
			host: `ip rule add from 192.0.2.1 table 301 priority 500
ip rule add from 192.0.2.2 table 302 priority 500
ip rule add from 192.0.2.3 table 303 priority 500`,
			change: `ip rule del from 192.0.2.1 table 301 priority 500`,
		},
		"a neighbour that the kernel keeps": {
			host:   "ip link set eth1 up\nip neigh add 192.0.2.9 dev eth1 managed",
			change: "ip link set eth1 down",
			shown:  "ip neigh show",
		},
		"a backup port": {
			host: `ip link add br0 type bridge
ip link set eth1 master br0
ip link set eth2 master br0
ip link set eth1 type bridge_slave backup_port eth2`,
			change: "ip link set eth2 nomaster",
		},
		"settings of a bond that is up": {
			host: `ip link set eth1 down
ip link add bond0 type bond mode 802.3ad lacp_rate fast ad_select bandwidth miimon 100
ip link set eth1 master bond0
ip link set bond0 up`,
			change: `ip link set bond0 down
ip link set bond0 type bond lacp_rate slow ad_select stable
ip link set bond0 up`,
		},
		"a bond with a primary port": {
			host: `ip link set eth1 down
ip link set eth2 down
ip link add bond0 type bond mode active-backup miimon 100 fail_over_mac active
ip link set eth1 master bond0
ip link set eth2 master bond0
ip link set bond0 type bond primary eth2 primary_reselect failure
ip link set bond0 up`,
			change: `ip link del bond0`,
		},
		"a bond that was never up": {
			host: `ip link add bond0 type bond mode balance-rr`,
			change: `ip link set eth1 down
ip link set eth1 master bond0
ip link set bond0 up`,
		},
		"a bond of another mode": {
			host: `ip link set eth1 down
ip link add bond0 type bond mode balance-tlb miimon 100 tlb_dynamic_lb 0
ip link set eth1 master bond0
ip link set bond0 up`,
			change: `ip link set eth1 nomaster
ip link set bond0 down
ip link set bond0 type bond mode active-backup
ip link set eth1 down
ip link set eth1 master bond0`,
		},
		"tunnels above a device": {
			host: `ip link add link eth1 name eth1.10 type vlan id 10 egress-qos-map 1:2 3:4 ingress-qos-map 5:6
ip link add vx0 type gretap remote 192.0.2.9 local 192.0.2.10 dev eth1.10 key 5 ttl 64
ip link add br0 type ipip remote 192.0.2.9 local 192.0.2.10 dev eth1.10
ip link set vx0 up
ip route add 198.18.0.0/24 dev vx0`,
			change: "ip link del vx0\nip link del br0\nip link del eth1.10",
		},
		"a VLAN": {
			host:   "ip link add link eth1 name eth1.10 type vlan id 10 loose_binding on reorder_hdr off egress-qos-map 1:2 3:4 ingress-qos-map 5:6",
			change: "ip link del eth1.10",
		},
		"a VLAN without flags": {
			host:   "ip link add link eth1 name eth1.10 type vlan id 10 reorder_hdr off",
			change: "ip link del eth1.10",
		},
		"a route of IPv6 whose source goes": {
			host: `ip link set eth1 up
ip addr add fd00::1/64 dev eth1 nodad
ip -6 route add fd01::/64 dev eth1 src fd00::1`,
			change: "ip addr del fd00::1/64 dev eth1",
		},
		"a device of macvlan": {
			host:   "ip link add link eth1 name vx0 type macvlan mode passthru bcqueuelen 77",
			change: "ip link del vx0",
		},
		"a VRF": {
			host: `ip link add vrf0 type vrf table 50
ip link set vrf0 up
ip link set eth1 up
ip link set eth1 master vrf0
ip addr add 192.0.2.10/24 dev eth1
ip addr add fd00::1/64 dev eth1
ip route add 198.18.0.0/24 via 192.0.2.1 table 50
ip -6 route add fd01::/64 via fd00::9 table 50
ip route add unreachable default metric 4278198272 table 50`,
			change: `ip link del vrf0`,
		},
		"addresses of a VRF that is down": {
			host:   "ip link add vrf0 type vrf table 50\nip addr add fd00::3/128 dev vrf0\nip addr add fd00::5/64 dev vrf0",
			change: "ip link del vrf0",
		},
		"addresses of a VRF that is up, and of its port": {
			host: `ip link add vrf0 type vrf table 50
ip link set vrf0 up
ip link set eth1 up
ip link set eth1 master vrf0
ip addr add fd00::3/128 dev vrf0
ip addr add fd00::4/128 dev eth1`,
			change: "ip link del vrf0",
		},
		"queueing disciplines of a bridge": {
			host: `ip link add br0 type bridge
tc qdisc add dev br0 clsact
tc qdisc add dev br0 root handle 1: htb default 10 r2q 20
tc class add dev br0 parent 1: classid 1:1 htb rate 9mbit burst 20k
tc class add dev br0 parent 1:1 classid 1:10 htb rate 1mbit ceil 2mbit prio 3
tc qdisc add dev br0 parent 1:10 handle 20: tbf rate 1mbit burst 5kb latency 70ms
tc qdisc add dev br0 parent 20:1 handle 30: bfifo limit 9000`,
			change: "ip link del br0",
			shown:  "tc class show dev br0",
		},
		"a queueing discipline of a pair": {
			host:   "tc qdisc add dev eth1 root handle 7: pfifo limit 77\ntc qdisc add dev eth1.ep ingress",
			change: "ip link del eth1",
		},
		"fair queueing": {
			host:   "tc qdisc add dev eth1 root handle 7: fq_codel limit 300 flows 64 target 3ms noecn",
			change: "ip link del eth1",
		},
		"bands": {
			host: `tc qdisc add dev eth1 root handle 8: prio bands 4 priomap 0 1 2 3 3 2 1 0 0 1 2 3 3 2 1 0
tc qdisc add dev eth1 parent 8:2 handle 9: pfifo limit 5`,
			change: "ip link del eth1",
		},
		"a new backup port": {
			host: `ip link add br0 type bridge
ip link set eth1 master br0
ip link set eth2 master br0`,
			change: "ip link set eth1 type bridge_slave backup_port eth2",
		},
	}
}

// furnished returns a host with two pairs.
func furnished(t *testing.T, commands string) *host {
	t.Helper()
	h := &host{randomhost.New(t), t}
	h.Run(`sysctl -qw net.ipv6.conf.default.accept_dad=0
ip link add eth1 type veth peer name eth1.ep
ip link add eth2 type veth peer name eth2.ep
ip link set eth1.ep up
ip link set eth2.ep up`)
	for line := range strings.Lines(commands) {
		if out, err := h.Try(line); strings.Contains(out, "not supported") || strings.Contains(out, "Unknown device type") ||
			strings.Contains(out, "qdisc kind is unknown") {
			t.Skip("missing feature: " + line + out)
		} else if err != nil {
			t.Fatal(line, out)
		}
	}
	return h
}

func (h *host) shown(command string) string {
	if command == "" {
		return ""
	}
	out, err := h.Try(command)
	if err != nil {
		h.t.Fatalf("%s: %v: %s", command, err, out)
	}
	lines := slices.DeleteFunc(slices.Sorted(strings.Lines(out)), func(line string) bool { return strings.Contains(line, " temp") })
	return strings.Join(lines, "")
}

func TestRestore_UnusualHosts_EqualToSnapshot(t *testing.T) {
	for name, c := range strange() {
		t.Run(name, func(t *testing.T) {
			h := furnished(t, c.host)
			a := snapshot.Area{
				Names:    []string{"eth1", "eth2", "br0", "vx0", "bond0", "eth1.10", "vrf0"},
				Routes:   randomhost.Destinations(),
				Added:    randomhost.Additions(),
				Removed:  []string{"eth1", "br0", "vx0", "bond0", "eth1.10", "vrf0"},
				Rules:    []uint32{500},
				AltNames: map[string][]string{"eth1": {"added"}, "br0": {"second"}},
			}
			before, more := h.Settled(), h.shown(c.shown)
			image := h.take(a)
			h.Run(c.change)
			if gone := h.back(image, a); len(gone) > 0 {
				t.Errorf("gone: %v", gone)
			}
			h.Is(before)
			if diff := cmp.Diff(more, h.shown(c.shown)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSnapshot_OperationalStates_NotSettings: the kernel refuses to write a state, such as mc_forwarding, which a
// daemon of multicast changes.
func TestSnapshot_OperationalStates_NotSettings(t *testing.T) {
	h := furnished(t, "ip link set eth1 up")
	settings, err := h.Settings("eth1")
	if err != nil {
		t.Fatal(err)
	}
	for path, value := range settings {
		if err := h.Replay(t.Context(), snapshot.Request{Path: path, Value: value}); err != nil {
			t.Error(err)
		}
	}
}

// TestRestore_BridgeAddress_FollowsPortsAgain: one that is set stays as it is for ever.
func TestRestore_BridgeAddress_FollowsPortsAgain(t *testing.T) {
	h := furnished(t, `ip link set eth1 address 02:00:00:00:00:50
ip link set eth2 address 02:00:00:00:00:10
ip link add br0 type bridge
ip link set eth1 master br0`)
	a := snapshot.Area{Names: []string{"br0", "eth2"}}
	before, image := h.Settled(), h.take(a)
	h.Run("ip link set eth2 master br0")
	h.back(image, a)
	h.Is(before)
	h.Run("ip link set eth1 address 02:00:00:00:00:60")
	if out := h.shown("ip -o link show br0"); !strings.Contains(out, "02:00:00:00:00:60") {
		t.Errorf("the bridge has not the address of its port: %s", out)
	}
}

// TestRestore_ProxyWithoutCarrier_Kept: the kernel keeps an entry without a carrier only if somebody
// made the entry as a permanent one. No dump tells whether it is one.
func TestRestore_ProxyWithoutCarrier_Kept(t *testing.T) {
	h := furnished(t, `ip link set eth1 up
ip addr add 192.0.2.10/24 dev eth1
ip neigh add proxy 192.0.2.99 dev eth1`)
	a := snapshot.Area{Names: []string{"eth1"}}
	before, image := h.Settled(), h.take(a)
	h.Run("ip addr flush dev eth1")
	h.back(image, a)
	h.Is(before)
	h.Run("ip link set eth1.ep down")
	waits.Until(t, 10*time.Second, "the kernel has noticed that the carrier is gone", func() error {
		if out := h.shown("ip -o link show eth1"); !strings.Contains(out, "state LOWERLAYERDOWN") && !strings.Contains(out, "state DOWN") {
			return errors.New(out)
		}
		return nil
	})
	if out := h.shown("ip neigh show proxy"); !strings.Contains(out, "192.0.2.99") {
		t.Errorf("the proxy has gone with the carrier: %q", out)
	}
}

// TestRestore_ForeignAlternativeNames_Kept: udev may add some while a change is open.
func TestRestore_ForeignAlternativeNames_Kept(t *testing.T) {
	h := furnished(t, "ip link set eth1 up")
	a := snapshot.Area{Names: []string{"eth1"}, AltNames: map[string][]string{"eth1": {"added"}}}
	image := h.take(a)
	h.Run("ip link property add dev eth1 altname added altname of-udev")
	if gone := h.back(image, a); len(gone) > 0 {
		t.Errorf("gone: %v", gone)
	}
	out, err := h.Try("ip link show dev eth1")
	if err != nil || !strings.Contains(out, "altname of-udev") || strings.Contains(out, "altname added") {
		t.Errorf("%v: %s", err, out)
	}
}
