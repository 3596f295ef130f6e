// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
)

// TestRestore_ForeignRoutes_OrderKept: the first route to a destination counts, though
// the others of its slot are not of the area. One of them that its owner removed stays away.
func TestRestore_ForeignRoutes_OrderKept(t *testing.T) {
	h := furnished(t, `ip link set eth1 up
ip link set eth2 up
ip addr add 192.0.2.10/24 dev eth1
ip addr add 192.0.2.20/24 dev eth2
ip route append 198.18.0.0/24 via 192.0.2.1 dev eth1
ip route append 198.18.0.0/24 via 192.0.2.2 dev eth2
ip route append 198.18.0.0/24 via 192.0.2.3 dev eth2`)
	a := snapshot.Area{Names: []string{"eth1"}}
	h.Settled()
	image := h.take(a)
	h.Run("ip route del 198.18.0.0/24 via 192.0.2.2 dev eth2")
	h.Run("ip link set eth1 down")
	h.back(image, a)
	const want = "192.0.2.0/24 dev eth1 proto kernel scope link src 192.0.2.10 \n" +
		"192.0.2.0/24 dev eth2 proto kernel scope link src 192.0.2.20 \n" +
		"198.18.0.0/24 via 192.0.2.1 dev eth1 \n" +
		"198.18.0.0/24 via 192.0.2.3 dev eth2 \n"
	if out, err := h.Try("ip -4 route show table main"); err != nil || out != want {
		t.Errorf("the routes are\n%s, %v; want\n%s", out, err, want)
	}
}

// TestRestore_RouteOnDeviceOutsideArea_AddedAgain: the kernel keeps a route when somebody turns IPv6
// off for the device, or sets one of several devices down, and takes no such route afterwards.
func TestRestore_RouteOnDeviceOutsideArea_AddedAgain(t *testing.T) {
	for name, c := range map[string]struct{ host, change string }{
		"a gateway of IPv6": {
			host: `ip link set eth2 up
ip route add 198.18.0.0/24 via inet6 fd00::5 dev eth2 onlink
sysctl -qw net.ipv6.conf.eth2.disable_ipv6=1`,
			change: "ip route del 198.18.0.0/24",
		},
		"one of two gateways of IPv6": {
			host: `ip link set eth1 up
ip link set eth2 up
ip route add 198.18.0.0/24 nexthop via inet6 fd00::5 dev eth1 onlink nexthop via inet6 fd00::6 dev eth2 onlink
sysctl -qw net.ipv6.conf.eth2.disable_ipv6=1`,
			change: "ip link set eth1 down",
		},
		"one of two devices down": {
			host: `ip link set eth1 up
ip link set eth2 up
ip addr add 192.0.2.10/24 dev eth1
ip addr add 192.0.2.11/24 dev eth2
ip route add 198.18.0.0/24 nexthop via 192.0.2.5 dev eth1 onlink nexthop via 192.0.2.6 dev eth2 onlink
ip link set eth2 down`,
			change: "ip link set eth1 down",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := furnished(t, c.host)
			a := snapshot.Area{Names: []string{"eth1"}, Routes: []snapshot.Destination{{Prefix: netip.MustParsePrefix("198.18.0.0/24"), Table: unix.RT_TABLE_MAIN}}}
			before, all := h.Settled(), h.all(a)
			image := all.Within(a)
			a.Under = all.Under(image)
			h.Run(c.change)
			if gone := h.back(image, a); len(gone) > 0 {
				t.Errorf("gone: %v", gone)
			}
			h.Is(before)
		})
	}
}
