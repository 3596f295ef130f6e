// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// underlays are the MTUs, in bytes, of networks that nodes have. The last is the
// least that IPv6 works with.
var underlays = []int{9000, 1500, 1350, 1280}

const jumbo = 9000

// shrink gives the nodes' network another MTU.
func (l *lab) shrink(mtu int) {
	for _, n := range l.nodes {
		in(l.t, n.ns, func() { setMTU(l.t, n.ifindex, mtu) })
	}
}

// Node 1 reaches the other over IPv4, and is reached over IPv6. The pods have
// interfaces of 9000 bytes all the time, as those of a network that has shrunk.
func TestSendersKeepToWhatTheUnderlayCarries(t *testing.T) {
	l, red, _ := twoTenants(t)
	for i, pods := range [][]*labPod{{red[10], red[11]}, {red[20]}} {
		for _, p := range pods {
			in(t, l.nodes[i].ns, func() { setMTU(t, p.ifindex, jumbo) })
			in(t, p.ns, func() { setMTU(t, p.peer, jumbo) })
		}
	}
	for _, mtu := range underlays {
		l.shrink(mtu)
		for _, way := range []struct {
			name     string
			from, to *labPod
			overhead int
		}{
			{"over IPv4", red[10], red[20], 50},
			{"over IPv6", red[20], red[10], 70},
		} {
			for family := range 2 {
				if mtu-way.overhead < 1280 && family == 1 {
					continue // see below
				}
				name := fmt.Sprintf("%s, underlay of %d, to %s", way.name, mtu, way.to.addrs[family])
				want := mtu - way.overhead
				// What the route said before is believed for a moment.
				eventually(t, fmt.Sprintf("%s: the pod knows a path MTU of %d", name, want), func() bool {
					stream(t, way.from.ns, way.to.ns, way.from.addrs[family], way.to.addrs[family])
					learned, err := routeMTU(t, way.from, way.to.addrs[family])
					return err == nil && learned == want
				})
				// What is longer is cut into fragments that fit.
				if !datagram(t, way.from.ns, way.to.ns, netip.AddrPortFrom(way.to.addrs[family], 9000), 20000) {
					t.Errorf("%s: a datagram of 20000 bytes did not arrive", name)
				}
			}
		}
		// On one node it does not matter what the underlay carries.
		for family := range 2 {
			if !datagram(t, red[10].ns, red[11].ns, netip.AddrPortFrom(red[11].addrs[family], 9000), 8900) {
				t.Errorf("underlay of %d: a datagram of 8900 bytes to a pod of the node did not arrive", mtu)
			}
		}
	}
}

func TestTheOuterPacketIsFragmentedWhereTheInnerMayNotBe(t *testing.T) {
	l, red, _ := twoTenants(t)
	l.shrink(1280)
	for _, c := range []struct {
		name string
		size int // of the IP packet
		dst  netip.Addr
		free bool // may be fragmented
	}{
		{"IPv6 of the least MTU", 1280, red[20].addrs[1], false},
		{"IPv4 that may be fragmented", 1400, red[20].addrs[0], true},
	} {
		header := 28
		if c.dst.Is6() {
			header = 48
		}
		before := counts(t, l.nodes[0].d)
		if !datagramWith(t, red[10].ns, red[20].ns, netip.AddrPortFrom(c.dst, 9000), c.size-header, func(fd int) error {
			if !c.free {
				return nil
			}
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
		}) {
			t.Errorf("%s did not arrive", c.name)
		}
		if got := added(before, counts(t, l.nodes[0].d)); got["from_pod/forwarded_remote"] != 1 || got["from_pod/replied_too_big"] != 0 {
			t.Errorf("%s: counted %v", c.name, got)
		}
	}
}
