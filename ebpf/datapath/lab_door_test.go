// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// closedRanges closes what the lab has, besides the outside.
func (l *lab) closedRanges() []state.ClosedPrefix {
	return []state.ClosedPrefix{
		{VNI: 0, Prefix: Px("169.254.64.0/18"), Class: state.ClosedShadow},
		{VNI: 0, Prefix: Px("fd00:a110::/64"), Class: state.ClosedShadow},
		{VNI: 0, Prefix: Px("10.96.0.0/16"), Class: state.ClosedService},
	}
}

var (
	outsideAddrs = []netip.Addr{Ip("198.51.100.1"), Ip("2001:db8:1::1")}
	routerAddrs  = []netip.Addr{Ip("198.51.100.254"), Ip("2001:db8:1::254")}
)

func TestProbesReachPodsOfOverlappingVPCsByTheirShadows(t *testing.T) {
	onEveryDevice(t, testProbesReachPodsOfOverlappingVPCsByTheirShadows)
}

func testProbesReachPodsOfOverlappingVPCsByTheirShadows(t *testing.T, device podDevice) {
	l, red, blue := twoTenants(t, device)
	n := l.nodes[0]
	shadows := []netip.Addr{n.state.Interfaces[2].Shadow4, n.state.Interfaces[2].Shadow6} // of blue .10
	for family := range 2 {
		n.state.Probes = append(n.state.Probes, state.ProbeTarget{IP: blue[10].addrs[family], Shadow: shadows[family]})
		n.state.Hooks = append(n.state.Hooks, state.HookTarget{IP: red[11].addrs[family], Shadow: shadows[family]})
	}
	l.apply()
	beKubelet(t, n)
	// The node itself has, and listens at, the very addresses of the pods.
	in(t, n.ns, func() {
		for _, a := range red[10].addrs {
			addAddr(t, 1, host(a))
		}
	})
	sources := []string{nodeShadowV4, nodeShadowV6}
	for family := range 2 {
		for _, c := range []struct {
			name   string
			port   uint16
			linger int
			toPod  bool
		}{
			{"a probe", 8080, 1, true},
			{"a connection that lingers for another time", 8081, 2, false},
			{"an ordinary connection", 8082, 0, false},
		} {
			dst := netip.AddrPortFrom(blue[10].addrs[family], c.port)
			inPod, inNode := listen(t, blue[10].ns, dst), listen(t, n.ns, dst)
			if _, err := dial(t, n.ns, dst, c.linger); err != nil {
				t.Errorf("%s to %s: %v", c.name, dst, err)
				continue
			}
			if !c.toPod {
				accept(t, inNode)
				continue
			}
			if _, from := accept(t, inPod); from.String() != sources[family] {
				t.Errorf("%s reaches the pod from %s, want %s", c.name, from, sources[family])
			}
		}
	}
	got := counts(t, n.d)
	if got["socket/probe_rewritten"] != 2 || got["socket/hook_rewritten"] != 0 {
		t.Errorf("rewritten connects were counted as %v", got)
	}
}

func TestAProbeToAMappedAddressIsRewritten(t *testing.T) {
	l, red, _ := twoTenants(t, vethPair)
	n := l.nodes[0]
	n.state.Probes = []state.ProbeTarget{{IP: red[10].addrs[0], Shadow: n.state.Interfaces[0].Shadow4}}
	l.apply()
	beKubelet(t, n)
	listener := listen(t, red[10].ns, netip.AddrPortFrom(red[10].addrs[0], 8080))
	in(t, n.ns, func() {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 1}); err != nil {
			t.Fatal(err)
		}
		if err := unix.Connect(fd, &unix.SockaddrInet6{Port: 8080, Addr: red[10].addrs[0].As16()}); err != nil {
			t.Fatalf("connect: %v", err)
		}
	})
	accept(t, listener)
}

func TestConnectsOfOtherNamespacesAreLeftAlone(t *testing.T) {
	l, red, _ := twoTenants(t, vethPair)
	n := l.nodes[0]
	n.state.Probes = []state.ProbeTarget{{IP: red[11].addrs[0], Shadow: n.state.Interfaces[0].Shadow4}}
	l.apply()
	beKubelet(t, n)
	dst := netip.AddrPortFrom(red[11].addrs[0], 8080)
	listener := listen(t, red[11].ns, dst)
	if _, err := dial(t, red[10].ns, dst, 1); err != nil {
		t.Fatalf("a pod's own connect that looks like a probe: %v", err)
	}
	if _, from := accept(t, listener); from != red[10].addrs[0] {
		t.Errorf("the connection came from %s", from)
	}
	if got := counts(t, n.d)["socket/probe_rewritten"]; got != 0 {
		t.Errorf("%d connects were rewritten", got)
	}
}

func TestAPodOpensNothingTowardsTheNode(t *testing.T) {
	onEveryDevice(t, testAPodOpensNothingTowardsTheNode)
}

func testAPodOpensNothingTowardsTheNode(t *testing.T, device podDevice) {
	l, red, _ := twoTenants(t, device)
	n := l.nodes[0]
	listen(t, n.ns, netip.AddrPortFrom(Ip(nodeShadowV4), 8080))
	before := counts(t, n.d)
	in(t, red[10].ns, func() {
		dialer := net.Dialer{Timeout: shyness}
		if conn, err := dialer.Dial("tcp", nodeShadowV4+":8080"); err == nil {
			conn.Close()
			t.Error("a pod connected to the node")
		}
	})
	if got := added(before, counts(t, n.d))["from_pod/node_closed"]; got == 0 {
		t.Error("the refused connection was not counted")
	}
}

func TestEgressReachesTheOutsideUnderTheShadow(t *testing.T) {
	onEveryDevice(t, testEgressReachesTheOutsideUnderTheShadow)
}

func testEgressReachesTheOutsideUnderTheShadow(t *testing.T, device podDevice) {
	l, red, blue := twoTenants(t, device)
	n := l.nodes[0]
	n.state.Closed = l.closedRanges()
	l.apply()
	shadows := []netip.Addr{n.state.Interfaces[0].Shadow4, n.state.Interfaces[0].Shadow6}
	for family := range 2 {
		stream(t, red[10].ns, l.outside, shadows[family], outsideAddrs[family])
		if !ping(t, red[10].ns, outsideAddrs[family], 56, patience) {
			t.Errorf("no answer to a ping of %s", outsideAddrs[family])
		}
	}
	before := counts(t, n.d)
	if ping(t, blue[10].ns, outsideAddrs[0], 56, shyness) {
		t.Error("a VPC without egress reached the outside")
	}
	if got := added(before, counts(t, n.d))["from_pod/egress_closed"]; got == 0 {
		t.Error("the refused packet was not counted")
	}
}

func TestAPodLearnsTheMTUOfAPathOutside(t *testing.T) {
	onEveryDevice(t, testAPodLearnsTheMTUOfAPathOutside)
}

func testAPodLearnsTheMTUOfAPathOutside(t *testing.T, device podDevice) {
	l, red, _ := twoTenants(t, device)
	l.nodes[0].state.Closed = l.closedRanges()
	l.apply()
	in(t, l.nodes[0].ns, func() {
		uplink, err := netlink.LinkByIndex(l.nodes[0].uplink)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetMTU(uplink, 1300); err != nil {
			t.Fatal(err)
		}
	})
	for family := range 2 {
		addr := netip.AddrPortFrom(outsideAddrs[family], 8080)
		listener := listen(t, l.outside, addr)
		conn, err := dial(t, red[10].ns, addr, 0)
		if err != nil {
			t.Fatal(err)
		}
		peer, _ := accept(t, listener)
		transfer(t, conn, peer)
		routes, err := routeMTU(t, red[10], outsideAddrs[family])
		if err != nil || routes != 1300 {
			t.Errorf("the pod knows a path MTU of %d to %s, %v, want 1300", routes, addr, err)
		}
	}
}

// routeMTU returns the path MTU that a pod has learned.
func routeMTU(t *testing.T, p *labPod, dst netip.Addr) (mtu int, err error) {
	t.Helper()
	in(t, p.ns, func() {
		var fd int
		family, level, option := unix.AF_INET, unix.IPPROTO_IP, unix.IP_MTU
		if dst.Is6() {
			family, level, option = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_MTU
		}
		if fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		defer unix.Close(fd)
		if err = unix.Connect(fd, sockaddr(netip.AddrPortFrom(dst, 9))); err != nil {
			return
		}
		mtu, err = unix.GetsockoptInt(fd, level, option)
	})
	return mtu, err
}

func TestASharedServiceIsReachedThroughTheDoor(t *testing.T) {
	onEveryDevice(t, testASharedServiceIsReachedThroughTheDoor)
}

func testASharedServiceIsReachedThroughTheDoor(t *testing.T, device podDevice) {
	l, red, blue := twoTenants(t, device)
	n := l.nodes[0]
	vip := netip.AddrPortFrom(Ip("10.96.0.1"), 443)
	n.state.Services = []state.Service{{VIP: vip.Addr(), Port: vip.Port(), Proto: state.ProtoTCP, Backends: []state.Backend{{IP: outsideAddrs[0], Port: 6443}}}}
	l.apply()
	listener := listen(t, l.outside, netip.AddrPortFrom(outsideAddrs[0], 6443))
	for i, p := range map[int]*labPod{0: red[10], 2: blue[10]} {
		conn, err := dial(t, p.ns, vip, 0)
		if err != nil {
			t.Fatalf("connect to the service: %v", err)
		}
		peer, from := accept(t, listener)
		if want := n.state.Interfaces[i].Shadow4; from != want {
			t.Errorf("the backend sees %s, want %s", from, want)
		}
		transfer(t, conn, peer)
	}
	in(t, red[10].ns, func() {
		closed := netip.AddrPortFrom(vip.Addr(), 444)
		dialer := net.Dialer{Timeout: shyness}
		if conn, err := dialer.Dial("tcp", closed.String()); err == nil {
			conn.Close()
			t.Errorf("connected to %s, which is no port of the service", closed)
		}
	})
	if got := counts(t, n.d)["from_pod/service_port"]; got == 0 {
		t.Error("the refused port was not counted")
	}
}

func TestForgedTunnelPacketsReachNothing(t *testing.T) {
	onEveryDevice(t, testForgedTunnelPacketsReachNothing)
}

func testForgedTunnelPacketsReachNothing(t *testing.T, device podDevice) {
	l, red, _ := twoTenants(t, device)
	n := l.nodes[0]
	inner := frame{
		EthDst: state.MAC{2, 0, 10, 0, 1, 10}, EthSrc: macR, Src: Ip("10.0.1.20"), Dst: red[10].addrs[0],
		L4: udp{Sport: 1, Dport: 9000, Payload: []byte("forged")},
	}.bytes()
	vxlan := binary.BigEndian.AppendUint32([]byte{8, 0, 0, 0}, labVNI1<<8)
	in(t, red[10].ns, func() {
		rx, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(red[10].addrs[0], 9000)))
		if err != nil {
			t.Fatal(err)
		}
		defer rx.Close()
		before := counts(t, n.d)
		for family := range 2 {
			in(t, l.outside, func() {
				tx, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(routerAddrs[family], programs.DefaultTunnelPort)))
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Close()
				if _, err := tx.Write(slices.Concat(vxlan, inner)); err != nil {
					t.Fatal(err)
				}
			})
		}
		eventually(t, "both forged packets are counted", func() bool {
			return added(before, counts(t, n.d))["from_tunnel/unknown_node"] == 2
		})
		silent(t, rx)
	})
}

func TestSpoofedPacketsOfAPodReachNothing(t *testing.T) {
	onEveryDevice(t, testSpoofedPacketsOfAPodReachNothing)
}

func testSpoofedPacketsOfAPodReachNothing(t *testing.T, device podDevice) {
	l, red, _ := twoTenants(t, device)
	n := l.nodes[0]
	ordinary := frame{
		EthDst: state.VirtualMAC, EthSrc: state.MAC{2, 0, 10, 0, 1, 10}, Src: red[10].addrs[0], Dst: red[11].addrs[0],
		L4: udp{Sport: 1, Dport: 9000, Payload: []byte("spoofed")},
	}
	in(t, red[11].ns, func() {
		rx, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(red[11].addrs[0], 9000)))
		if err != nil {
			t.Fatal(err)
		}
		defer rx.Close()
		before := counts(t, n.d)
		in(t, red[10].ns, func() {
			sendRaw(t, red[10].peer, ordinary.with(func(f *frame) { f.EthSrc = MacB }).bytes())
			sendRaw(t, red[10].peer, ordinary.with(func(f *frame) { f.Src = red[20].addrs[0] }).bytes())
		})
		eventually(t, "both spoofed packets are counted", func() bool {
			got := added(before, counts(t, n.d))
			return got["from_pod/spoofed_mac"] == 1 && got["from_pod/spoofed_ip"] == 1
		})
		silent(t, rx)
		// The same socket does receive what is not spoofed.
		in(t, red[10].ns, func() { sendRaw(t, red[10].peer, ordinary.bytes()) })
		if got := receive(t, rx, patience); got != "spoofed" {
			t.Errorf("an honest packet gave %q", got)
		}
	})
}

func TestDropsAreReported(t *testing.T) { onEveryDevice(t, testDropsAreReported) }

func testDropsAreReported(t *testing.T, device podDevice) {
	l, red, _ := twoTenants(t, device)
	n := l.nodes[0]
	drops, err := n.d.Drops()
	if err != nil {
		t.Fatal(err)
	}
	defer drops.Close()
	in(t, red[10].ns, func() {
		f := frame{
			EthDst: state.VirtualMAC, EthSrc: state.MAC{2, 0, 10, 0, 1, 10}, Src: red[10].addrs[0], Dst: Ip(nodeShadowV4),
			L4: tcp{Sport: 1000, Dport: 22, Flags: flagSYN},
		}
		sendRaw(t, red[10].peer, f.bytes())
	})
	for {
		drop, err := drops.Read()
		if err != nil {
			t.Fatal(err)
		}
		if drop.Reason.String() != "node_closed" {
			continue // the kernel's own chatter
		}
		drop.Time = 0
		want := telemetry.Event{
			Ifindex: red[10].ifindex, VNI: labVNI1, Reason: drop.Reason, Direction: telemetry.FromPod,
			Came:  telemetry.Tuple{Src: red[10].addrs[0], Dst: Ip(nodeShadowV4), Sport: 1000, Dport: 22},
			Proto: state.ProtoTCP,
		}
		if d := cmp.Diff(want, drop, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
			t.Errorf("drop (-want +got):\n%s", d)
		}
		return
	}
}

func sendRaw(t *testing.T, ifindex int, b []byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	// A netkit pair tells the sender that a program has dropped it.
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: ifindex}); err != nil && !errors.Is(err, unix.ENOBUFS) {
		t.Fatal(err)
	}
}

// receive returns the next datagram, or "" if none comes in time.
func receive(t *testing.T, rx *net.UDPConn, wait time.Duration) string {
	t.Helper()
	buf := make([]byte, 2048)
	_ = rx.SetReadDeadline(time.Now().Add(wait))
	n, err := rx.Read(buf)
	if err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return ""
		}
		t.Fatal(err)
	}
	return string(buf[:n])
}

// silent checks that nothing has been received. The packets in question have
// been counted as dropped before, so there is nothing to wait for.
func silent(t *testing.T, rx *net.UDPConn) {
	t.Helper()
	if got := receive(t, rx, shyness); got != "" {
		t.Errorf("received %q", got)
	}
}
