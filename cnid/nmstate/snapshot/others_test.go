// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
)

// TestRestore_ForeignChangesMeanwhile_Kept on a device that the change touches: what they add, and what they
// write anew or withdraw.
func TestRestore_ForeignChangesMeanwhile_Kept(t *testing.T) {
	h := furnished(t, `ip link set eth1 up
ip addr add 192.0.2.10/24 dev eth1
ip addr add 192.0.2.20/24 dev eth1
ip addr add 192.0.2.66/32 dev eth1
ip addr add fd00::10/64 dev eth1 nodad
ip neigh add 192.0.2.8 dev eth1 lladdr 02:00:00:00:00:08
ip neigh add 192.0.2.9 dev eth1 lladdr 02:00:00:00:00:09
ip -6 route add fd01::/64 via fd00::9 dev eth1 proto bird hoplimit 10
ip -6 route add fd02::/64 via fd00::9 dev eth1 hoplimit 10
ip route add 198.18.0.0/24 via 192.0.2.1 dev eth1 window 1000`)
	prefix, gateway := netip.MustParsePrefix, netip.MustParseAddr("192.0.2.1")
	to := snapshot.Destination{Prefix: prefix("198.18.4.0/24"), Table: unix.RT_TABLE_MAIN}
	a := snapshot.Area{
		Routes:    []snapshot.Destination{to},
		Added:     []snapshot.Addition{{Destination: to, Gateway: &gateway}},
		Names:     []string{"eth1"},
		Addresses: map[string][]netip.Prefix{"eth1": {prefix("203.0.113.7/24"), prefix("fd07::7/64")}},
	}
	h.Settled()
	image := h.take(a)
	h.Run(`ip addr del 192.0.2.10/24 dev eth1
ip addr add 203.0.113.7/24 dev eth1
ip addr add fd07::7/64 dev eth1 nodad
ip route add 198.18.4.0/24 via 192.0.2.1 dev eth1 onlink proto static`)
	image.NoteSurvivors(h.all(a))
	h.Run(`ip addr add 203.0.113.77/24 dev eth1
ip addr add 192.0.2.77/24 dev eth1
ip addr add 198.51.100.77/24 dev eth1
ip addr add fd07::77/64 dev eth1 nodad
ip addr del 192.0.2.66/32 dev eth1
ip neigh replace 192.0.2.9 dev eth1 lladdr 02:00:00:00:00:99
ip route add 198.18.4.0/24 via 192.0.2.3 dev eth1 onlink proto static metric 7
ip neigh add 192.0.2.77 dev eth1 lladdr 02:00:00:00:00:77
ip -6 route change fd01::/64 via fd00::9 dev eth1 proto bird hoplimit 20
ip -6 route change fd02::/64 via fd00::9 dev eth1 hoplimit 20
ip route replace 198.18.0.0/24 via 192.0.2.1 dev eth1 window 2000`)
	h.back(image.WithoutWithdrawn(h.all(a)), a)
	for command, want := range map[string][]string{
		"ip -o addr show dev eth1":             {"192.0.2.10/24", "192.0.2.20/24", "192.0.2.77/24", "198.51.100.77/24", "203.0.113.77/24", "fd00::10/64", "fd07::77/64"},
		"ip neigh show dev eth1 nud permanent": {"192.0.2.8 lladdr 02:00:00:00:00:08", "192.0.2.9 lladdr 02:00:00:00:00:99", "192.0.2.77 lladdr 02:00:00:00:00:77"},
		"ip -6 route show":                     {"hoplimit 20", "fd01::/64", "fd02::/64", "fd07::/64"},
		"ip route show":                        {"window 2000", "198.18.4.0/24 via 192.0.2.3"},
	} {
		out := h.shown(command)
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: lacks %s:\n%s", command, text, out)
			}
		}
		for _, text := range []string{"203.0.113.7/24", "fd07::7/64", "192.0.2.66", "hoplimit 10", "window 1000", "198.18.4.0/24 via 192.0.2.1"} {
			if strings.Contains(out, text) {
				t.Errorf("%s: has %s:\n%s", command, text, out)
			}
		}
	}
}

type loss struct {
	host, change, others, lost string
	want, without              []string
}

// lossy returns undos with requests that make the kernel drop objects of others: they set a
// device down, make it again, or give it another controller. lost are commands with the same
// effect.
func lossy() map[string]loss {
	const bond = `ip link set eth1 down
ip link add bond0 type bond mode 802.3ad lacp_rate fast miimon 100
ip link set eth1 master bond0
ip link set bond0 up`
	return map[string]loss{
		"a bond that is down for a setting": {
			host: bond,
			change: `ip link set bond0 down
ip link set bond0 type bond lacp_rate slow
ip link set bond0 up`,
			others: `ip addr add fd77::7/64 dev bond0 nodad
ip addr add fd77::8/64 dev bond0
ip addr add 198.51.77.7/24 dev bond0
ip route add 198.18.77.0/24 via 198.51.77.1 dev bond0 proto 77
ip -6 route add fd77:1::/64 via fd77::1 dev bond0 proto 77
ip neigh add 198.51.77.9 dev bond0 lladdr 02:00:00:00:77:09
ip neigh add proxy 198.51.77.10 dev bond0
ip nexthop add id 77 via 198.51.77.1 dev bond0
ip route add 198.18.77.0/25 nhid 77
ip link add link bond0 name bond0.77 type vlan id 77
ip link set bond0.77 up
ip addr add fd77:2::7/64 dev bond0.77 nodad`,
			want: []string{
				"fd77::7/64 scope global nodad", "fd77::8/64 scope global", "198.51.77.7/24", "198.18.77.0/24 via 198.51.77.1 dev bond0", "fd77::/64 dev bond0",
				"fd77:1::/64 via fd77::1 dev bond0", "198.51.77.9 dev bond0 lladdr 02:00:00:00:77:09", "198.51.77.10 dev bond0 proxy", "id 77 via 198.51.77.1",
				"198.18.77.0/25 nhid 77", "fd77:2::7/64", "fd77:2::/64 dev bond0.77",
			},
		},
		"a bond of another mode": {
			host: strings.Replace(bond, "802.3ad lacp_rate fast", "balance-tlb", 1),
			change: `ip link set eth1 nomaster
ip link set bond0 down
ip link set bond0 type bond mode active-backup
ip link set eth1 down
ip link set eth1 master bond0
ip link set bond0 up`,
			others: `ip link add d77 type veth peer name d77.ep
ip link set d77 master bond0`,
			want: []string{"master bond0 d77@"},
		},
		"a device that was down": {
			host:   "ip addr add 192.0.2.10/24 dev eth1",
			change: "ip link set eth1 up",
			others: `ip addr add fd77::7/64 dev eth1 nodad
ip neigh add 198.51.77.9 dev eth1 lladdr 02:00:00:00:77:09
ip route add 198.18.77.0/24 dev eth1 proto 77`,
			want:    []string{"fd77::7/64", "198.51.77.9 dev eth1 lladdr 02:00:00:00:77:09"},
			without: []string{"198.18.77.0"},
		},
		"a device that is made again": {
			host: "ip link add br0 type bridge\nip link set br0 up",
			change: `ip link del br0
ip link add br0 type bridge stp_state 1
ip link set br0 up`,
			others: `ip addr add fd77::7/64 dev br0 nodad
ip addr add 198.51.77.7/24 dev br0
ip neigh add 198.51.77.9 dev br0 lladdr 02:00:00:00:77:09
ip route add 198.18.77.0/24 via 198.51.77.1 dev br0 proto 77`,
			want: []string{"fd77::7/64", "198.51.77.7/24", "198.51.77.9 dev br0 lladdr 02:00:00:00:77:09", "198.18.77.0/24 via 198.51.77.1 dev br0"},
		},
		"a bridge that is made again": {
			host: "ip link add br0 type bridge mcast_snooping 1\nip link set br0 up\nip link set eth1 up\nip link set eth1 master br0",
			change: `ip link del br0
ip link add br0 type bridge mcast_snooping 1
ip link set br0 up
ip link set eth1 master br0`,
			others: `bridge fdb add 02:00:00:00:77:01 dev eth1 master static
bridge mdb add dev br0 port eth1 grp 239.77.0.1 permanent`,
			want: []string{"02:00:00:00:77:01 dev eth1 master br0 static", "port eth1 grp 239.77.0.1 permanent"},
		},
		"a port of a VRF": {
			host:   "ip link add vrf0 type vrf table 50\nip link set vrf0 up\nip link set eth1 up\nip link set eth1 master vrf0",
			change: "ip link set eth1 nomaster",
			others: `ip addr add fd77::7/64 dev eth1 nodad
ip neigh add 198.51.77.9 dev eth1 lladdr 02:00:00:00:77:09`,
			want: []string{"fd77::7/64", "198.51.77.9 dev eth1 lladdr 02:00:00:00:77:09"},
		},
		"a port of a bond": {
			host: bond,
			change: `ip link set eth1 nomaster
ip link set eth1 up`,
			others: "ip addr add 198.51.77.7/24 dev eth1\nip neigh add 198.51.77.9 dev eth1 lladdr 02:00:00:00:77:09",
			want:   []string{"198.51.77.7/24", "198.51.77.9 dev eth1 lladdr 02:00:00:00:77:09"},
		},
		"a device without IPv6": {
			host:    "ip link set eth1 up\nsysctl -qw net.ipv6.conf.eth1.disable_ipv6=1",
			change:  "sysctl -qw net.ipv6.conf.eth1.disable_ipv6=0",
			others:  "ip addr add fd77::7/64 dev eth1 nodad\nip addr add 198.51.77.7/24 dev eth1",
			want:    []string{"198.51.77.7/24"},
			without: []string{"fd77::7"},
		},
		"a device whose MTU was too small for IPv6": {
			host:    "ip link set eth1 up mtu 1200",
			change:  "ip link set eth1 mtu 1500",
			others:  "ip addr add fd77::7/64 dev eth1 nodad\nip addr add 198.51.77.7/24 dev eth1",
			want:    []string{"198.51.77.7/24"},
			without: []string{"fd77::7"},
		},
		"what others have written in the place of the old": {
			host: `ip link set eth1 up
ip addr add 192.0.2.10/24 dev eth1
ip neigh add 192.0.2.9 dev eth1 lladdr 02:00:00:00:00:09
ip nexthop add id 5 via 192.0.2.1 dev eth1
ip route add 198.18.5.0/24 via 192.0.2.1 dev eth1 proto bird`,
			change: "ip link set eth1 mtu 1400",
			others: `ip neigh replace 192.0.2.9 dev eth1 lladdr 02:00:00:00:77:09
ip nexthop replace id 5 via 192.0.2.77 dev eth1
ip route replace 198.18.5.0/24 via 192.0.2.77 dev eth1 proto bird`,
			lost:    "ip link set eth1 down\nip link set eth1 up",
			want:    []string{"192.0.2.9 dev eth1 lladdr 02:00:00:00:77:09", "id 5 via 192.0.2.77", "198.18.5.0/24 via 192.0.2.77 dev eth1 proto bird"},
			without: []string{"02:00:00:00:00:09", "via 192.0.2.1 "},
		},
		"a route of IPv6 that the change has joined": {
			host: "ip link set eth1 up\nip addr add fd00::10/64 dev eth1 nodad",
			change: `ip -6 route append fd77:1::/64 via fd00::77 dev eth1 onlink proto 77 metric 50
ip -6 route append fd77:1::/64 via fd00::2 dev eth1 onlink proto static metric 50`,
			lost:    "ip link set eth1 down\nip link set eth1 up",
			want:    []string{"fd77:1::/64 via fd00::77 dev eth1 proto 77 metric 50 onlink"},
			without: []string{"fd00::2"},
		},
		"lifetimes": {
			host:   "ip link set eth1 up",
			change: "ip link set eth1 mtu 1400",
			others: "ip addr add fd77::7/64 dev eth1 nodad valid_lft 300 preferred_lft 200\nip -6 route add fd77:1::/64 dev eth1 proto 77 expires 300",
			lost:   "ip link set eth1 down\nip link set eth1 up",
			want:   []string{"fd77::7/64 scope global nodad dynamic", "fd77:1::/64 dev eth1 proto 77 metric 1024 expires"},
		},
	}
}

// everything has the commands that show what others add.
func (h *host) everything() string {
	var out strings.Builder
	for _, command := range []string{
		"ip addr show", "ip -4 route show table all", "ip -6 route show table all", "ip neigh show nud permanent", "ip neigh show proxy", "ip nexthop show",
		"bridge fdb show", "bridge mdb show",
	} {
		out.WriteString(h.shown(command))
	}
	ports, err := h.Try("ip -br link show master bond0")
	if err == nil {
		for line := range strings.Lines(ports) {
			name, _, _ := strings.Cut(line, " ")
			out.WriteString("master bond0 " + name + "\n")
		}
	}
	return out.String()
}

// TestRestore_UndoDropsForeignObjects_TheyReturn where the state before has a place for it.
func TestRestore_UndoDropsForeignObjects_TheyReturn(t *testing.T) {
	for name, c := range lossy() {
		t.Run(name, func(t *testing.T) {
			h := furnished(t, c.host)
			to := snapshot.Destination{Prefix: netip.MustParsePrefix("fd77:1::/64"), Table: unix.RT_TABLE_MAIN}
			gateway := netip.MustParseAddr("fd00::2")
			a := snapshot.Area{
				Names: []string{"eth1", "br0", "bond0"}, Made: []string{"br0"}, Removed: []string{"br0"}, Addresses: map[string][]netip.Prefix{},
				Routes: []snapshot.Destination{to}, Added: []snapshot.Addition{{Destination: to, Gateway: &gateway}},
			}
			h.Settled()
			image := h.take(a)
			h.Run(c.change)
			h.Run(c.others)
			const age = time.Second // as compare has it
			image = image.WithOthers(h.all(snapshot.Area{}), a, age)
			h.Run(c.lost)
			if gone := h.back(image, a); len(gone) > 0 {
				t.Errorf("gone: %v", gone)
			}
			requests, _ := h.compare(image, a)
			if len(requests) > 0 {
				t.Errorf("the undo asks in vain: %v", requests)
			}
			out := h.everything()
			for _, text := range c.want {
				if !strings.Contains(out, text) {
					t.Errorf("lacks %q", text)
				}
			}
			for _, text := range c.without {
				if strings.Contains(out, text) {
					t.Errorf("has %q", text)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}
