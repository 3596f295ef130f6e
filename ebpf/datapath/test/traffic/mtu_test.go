// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// underlays are the MTUs, in bytes, of networks that nodes have. The last is the least MTU of
// IPv6. Below 1350, an MTU is too small for a tunnel that carries IPv6 over IPv6 in one piece.
var underlays = []int{9000, 1500, 1350, 1300, 1280}

const jumbo = 9000

// shrink gives the nodes' network another MTU.
func shrink(l *lab.Lab, mtu int) {
	for _, n := range l.Nodes {
		bpftest.In(l.T, n.NS, func() { bpftest.SetMTU(l.T, n.Ifindex, mtu) })
	}
}

// widen gives the interfaces of pods, .20 on node 2, as many bytes as any network
// has.
func widen(l *lab.Lab, pods map[int]*lab.Pod) {
	for number, p := range pods {
		bpftest.In(l.T, l.Nodes[number/20].NS, func() { bpftest.SetMTU(l.T, p.Ifindex, jumbo) })
		bpftest.In(l.T, p.NS, func() { bpftest.SetMTU(l.T, p.Peer, jumbo) })
	}
}

// Node 1 reaches the other node over IPv4, and is reached over IPv6. The pods have interfaces of
// 9000 bytes all the time, as after a decrease of the network's MTU.
func TestSender_InterfaceMTUAboveUnderlay_KeepsToUnderlay(t *testing.T) {
	lab.OnEveryDevice(t, testSenderInterfaceMTUAboveUnderlayKeepsToUnderlay)
}

func testSenderInterfaceMTUAboveUnderlayKeepsToUnderlay(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	widen(l, red)
	for _, mtu := range underlays {
		shrink(l, mtu)
		for _, way := range []struct {
			name     string
			from, to *lab.Pod
			overhead int
		}{
			{"over IPv4", red[10], red[20], 50},
			{"over IPv6", red[20], red[10], 70},
		} {
			for family := range 2 {
				name := fmt.Sprintf("%s, underlay of %d, to %s", way.name, mtu, way.to.Addrs[family])
				bpftest.Stream(t, way.from.NS, way.to.NS, way.from.Addrs[family], way.to.Addrs[family])
				want := mtu - way.overhead
				if family == 1 {
					want = max(want, 1280)
				}
				expectPathMTU(t, name, way.from, way.to.Addrs[family], want)
				// A longer datagram is cut into fragments that fit.
				if !bpftest.Datagram(t, way.from.NS, way.to.NS, netip.AddrPortFrom(way.to.Addrs[family], 9000), 20000) {
					t.Errorf("%s: a datagram of 20000 bytes did not arrive", name)
				}
			}
		}
		// On one node the MTU of the underlay does not matter.
		for family := range 2 {
			if !bpftest.Datagram(t, red[10].NS, red[11].NS, netip.AddrPortFrom(red[11].Addrs[family], 9000), 8900) {
				t.Errorf("underlay of %d: a datagram of 8900 bytes to a pod of the node did not arrive", mtu)
			}
		}
	}
}

// expectPathMTU sends packets that fit no underlay and waits until the pod has learned the MTU,
// in bytes. A stream alone need not teach it: the other end's segments may be smaller by the MTU
// that the other end has learned.
func expectPathMTU(t *testing.T, name string, from *lab.Pod, dst netip.Addr, want int) {
	t.Helper()
	var tx *net.UDPConn
	bpftest.In(t, from.NS, func() {
		var err error
		if tx, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, 9))); err != nil {
			t.Fatal(err)
		}
	})
	defer tx.Close()
	bpftest.OnSocket(t, tx, func(fd int) error {
		if dst.Is4() {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
	})
	bpftest.Eventually(t, fmt.Sprintf("%s: the pod knows a path MTU of %d", name, want), func() bool {
		// An error belongs to the datagram before: no socket listens.
		_, _ = tx.Write(make([]byte, jumbo-100))
		learned, err := routeMTU(t, from, dst)
		return err == nil && learned == want
	})
}

// A network with the least MTU of IPv6 has no room for the tunnel, and IPv6 allows no smaller
// MTU.
func TestIPv6Packet_NarrowestIPv6Underlay_Arrives(t *testing.T) {
	lab.OnEveryDevice(t, testIPv6PacketNarrowestIPv6UnderlayArrives)
}

func testIPv6PacketNarrowestIPv6UnderlayArrives(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	for i := range l.Nodes[0].State.Addresses {
		if row := &l.Nodes[0].State.Addresses[i]; row.Kind == state.Remote {
			row.Node = l.Nodes[1].Underlay[1]
		}
	}
	l.Apply()
	widen(l, red)
	for _, mtu := range []int{1349, 1300, 1280} {
		shrink(l, mtu)
		for _, way := range [][2]*lab.Pod{{red[10], red[20]}, {red[20], red[10]}} {
			from, to := way[0], way[1]
			name, dst := fmt.Sprintf("underlay of %d, to %s", mtu, to.Addrs[1]), netip.AddrPortFrom(to.Addrs[1], 9000)
			bpftest.Stream(t, from.NS, to.NS, from.Addrs[1], to.Addrs[1])
			expectPathMTU(t, name, from, to.Addrs[1], 1280)
			for _, size := range []int{mtu - 70, mtu - 69, mtu - 62, 1280} {
				if size <= 1280 && !bpftest.Datagram(t, from.NS, to.NS, dst, size-48) {
					t.Errorf("%s: a packet of %d bytes did not arrive", name, size)
				}
			}
			if !bpftest.Datagram(t, from.NS, to.NS, dst, 20000) {
				t.Errorf("%s: a datagram of 20000 bytes, cut by its sender, did not arrive", name)
			}
			if !bpftest.Ping(t, from.NS, to.Addrs[1], 1280-48, bpftest.Patience) {
				t.Errorf("%s: an echo of 1280 bytes is not answered", name)
			}
			expectTrain(t, name, from, to, dst)
		}
	}
	for i, n := range l.Nodes {
		if counted := bpftest.Counts(t, n.Datapath); counted["to_tunnel/forwarded_remote"] == 0 || counted["to_tunnel/rewrite_failed"] != 0 {
			t.Errorf("node %d: counted %v", i+1, counted)
		}
	}
}

// A packet that may be fragmented arrives where it does not fit, whether or not its
// sender has learned of that.
func TestIPv4Packet_FragmentableOverIPv6_Arrives(t *testing.T) {
	lab.OnEveryDevice(t, testIPv4PacketFragmentableOverIPv6Arrives)
}

func testIPv4PacketFragmentableOverIPv6Arrives(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	for i := range l.Nodes[0].State.Addresses {
		if row := &l.Nodes[0].State.Addresses[i]; row.Kind == state.Remote {
			row.Node = l.Nodes[1].Underlay[1]
		}
	}
	l.Apply()
	widen(l, red)
	mayBeFragmented := func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
	}
	for _, mtu := range []int{1500, 1350, 1280} {
		shrink(l, mtu)
		twice := 2*((mtu-48)&^7) - 30
		for _, way := range [][2]*lab.Pod{{red[10], red[20]}, {red[20], red[10]}} {
			for _, size := range []int{mtu - 70, mtu - 69, 1500, twice} {
				dst := netip.AddrPortFrom(way[1].Addrs[0], 9000)
				if !bpftest.DatagramWith(t, way[0].NS, way[1].NS, dst, size-28, mayBeFragmented) {
					t.Errorf("underlay of %d, to %s: a packet of %d bytes did not arrive", mtu, dst.Addr(), size)
				}
			}
		}
	}
	for i, n := range l.Nodes {
		counted := bpftest.Counts(t, n.Datapath)
		if counted["to_tunnel/forwarded_remote"] == 0 || counted["to_tunnel/rewrite_failed"] != 0 || counted["from_pod/replied_too_big"] != 0 {
			t.Errorf("node %d: counted %v", i+1, counted)
		}
	}
}

// expectTrain sends datagrams of one call, which stay together as long as no
// device has to take them apart, in packets of 1280 bytes.
func expectTrain(t *testing.T, name string, from, to *lab.Pod, dst netip.AddrPort) {
	t.Helper()
	const payload, wagons = 1280 - 48, 8
	rx, tx := bpftest.UdpPair(t, to.NS, from.NS, dst)
	defer rx.Close()
	bpftest.OnSocket(t, tx, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, payload) })
	train := make([]byte, payload*wagons)
	rand.Read(train)
	if _, err := tx.Write(train); err != nil {
		t.Fatalf("%s: send datagrams: %v", name, err)
	}
	_ = rx.SetReadDeadline(time.Now().Add(bpftest.Patience))
	got := make([]byte, 1<<16)
	for i := range wagons {
		n, err := rx.Read(got)
		if err != nil || !bytes.Equal(got[:n], train[i*payload:(i+1)*payload]) {
			t.Errorf("%s: of %d datagrams, number %d did not arrive: %d bytes, %v", name, wagons, i+1, n, err)
			return
		}
	}
}

func TestOuterPacket_InnerNotFragmentable_Fragmented(t *testing.T) {
	lab.OnEveryDevice(t, testOuterPacketInnerNotFragmentableFragmented)
}

func testOuterPacketInnerNotFragmentableFragmented(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	shrink(l, 1280)
	for _, c := range []struct {
		name string
		size int // of the IP packet
		dst  netip.Addr
		free bool // may be fragmented
	}{
		{"IPv6 of the least MTU", 1280, red[20].Addrs[1], false},
		{"IPv4 that may be fragmented", 1400, red[20].Addrs[0], true},
	} {
		header := 28
		if c.dst.Is6() {
			header = 48
		}
		before := bpftest.Counts(t, l.Nodes[0].Datapath)
		if !bpftest.DatagramWith(t, red[10].NS, red[20].NS, netip.AddrPortFrom(c.dst, 9000), c.size-header, func(fd int) error {
			if !c.free {
				return nil
			}
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
		}) {
			t.Errorf("%s did not arrive", c.name)
		}
		if got := bpftest.Added(before, bpftest.Counts(t, l.Nodes[0].Datapath)); got["from_pod/forwarded_remote"] != 1 || got["from_pod/replied_too_big"] != 0 {
			t.Errorf("%s: counted %v", c.name, got)
		}
	}
}
