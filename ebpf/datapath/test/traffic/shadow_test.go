// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

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

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// closedRanges closes the ranges of the lab, besides the outside.
func closedRanges() []state.ClosedPrefix {
	return []state.ClosedPrefix{
		{VNI: 0, Prefix: wire.Prefix("169.254.64.0/18"), Class: state.ClosedShadow},
		{VNI: 0, Prefix: wire.Prefix("fd00:a110::/64"), Class: state.ClosedShadow},
		{VNI: 0, Prefix: wire.Prefix("10.96.0.0/16"), Class: state.ClosedService},
	}
}

func TestProbe_OverlappingVPCs_ReachesPodByShadow(t *testing.T) {
	lab.OnEveryDevice(t, testProbeOverlappingVPCsReachesPodByShadow)
}

func testProbeOverlappingVPCsReachesPodByShadow(t *testing.T, device lab.PodDevice) {
	l, red, blue := lab.TwoTenants(t, device)
	n := l.Nodes[0]
	shadows := []netip.Addr{n.State.Interfaces[2].Shadow4, n.State.Interfaces[2].Shadow6} // of blue .10
	for family := range 2 {
		n.State.Probes = append(n.State.Probes, state.ProbeTarget{IP: blue[10].Addrs[family], Shadow: shadows[family]})
		n.State.Hooks = append(n.State.Hooks, state.HookTarget{IP: red[11].Addrs[family], Shadow: shadows[family]})
	}
	l.Apply()
	beKubelet(t, n)
	// The node itself has, and listens at, the very addresses of the pods.
	bpftest.In(t, n.NS, func() {
		for _, a := range red[10].Addrs {
			bpftest.AddAddr(t, 1, bpftest.Host(a))
		}
	})
	sources := []string{lab.NodeShadowV4, lab.NodeShadowV6}
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
			dst := netip.AddrPortFrom(blue[10].Addrs[family], c.port)
			inPod, inNode := bpftest.Listen(t, blue[10].NS, dst), bpftest.Listen(t, n.NS, dst)
			if _, err := bpftest.Dial(t, n.NS, dst, c.linger); err != nil {
				t.Errorf("%s to %s: %v", c.name, dst, err)
				continue
			}
			if !c.toPod {
				bpftest.Accept(t, inNode)
				continue
			}
			if _, from := bpftest.Accept(t, inPod); from.String() != sources[family] {
				t.Errorf("%s reaches the pod from %s, want %s", c.name, from, sources[family])
			}
		}
	}
	got := bpftest.Counts(t, n.Datapath)
	if got["socket/probe_rewritten"] != 2 || got["socket/hook_rewritten"] != 0 {
		t.Errorf("rewritten connects were counted as %v", got)
	}
}

func TestProbe_MappedAddress_Rewritten(t *testing.T) {
	l, red, _ := lab.TwoTenants(t, lab.Veth)
	n := l.Nodes[0]
	n.State.Probes = []state.ProbeTarget{{IP: red[10].Addrs[0], Shadow: n.State.Interfaces[0].Shadow4}}
	l.Apply()
	beKubelet(t, n)
	listener := bpftest.Listen(t, red[10].NS, netip.AddrPortFrom(red[10].Addrs[0], 8080))
	bpftest.In(t, n.NS, func() {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 1}); err != nil {
			t.Fatal(err)
		}
		if err := unix.Connect(fd, &unix.SockaddrInet6{Port: 8080, Addr: red[10].Addrs[0].As16()}); err != nil {
			t.Fatalf("connect: %v", err)
		}
	})
	bpftest.Accept(t, listener)
}

func TestConnect_OtherNamespace_LeftAlone(t *testing.T) {
	l, red, _ := lab.TwoTenants(t, lab.Veth)
	n := l.Nodes[0]
	n.State.Probes = []state.ProbeTarget{{IP: red[11].Addrs[0], Shadow: n.State.Interfaces[0].Shadow4}}
	l.Apply()
	beKubelet(t, n)
	dst := netip.AddrPortFrom(red[11].Addrs[0], 8080)
	listener := bpftest.Listen(t, red[11].NS, dst)
	if _, err := bpftest.Dial(t, red[10].NS, dst, 1); err != nil {
		t.Fatalf("a pod's own connect that looks like a probe: %v", err)
	}
	if _, from := bpftest.Accept(t, listener); from != red[10].Addrs[0] {
		t.Errorf("the connection came from %s", from)
	}
	if got := bpftest.Counts(t, n.Datapath)["socket/probe_rewritten"]; got != 0 {
		t.Errorf("%d connects were rewritten", got)
	}
}

func TestPod_OpensFlowToNode_Dropped(t *testing.T) {
	lab.OnEveryDevice(t, testPodOpensFlowToNodeDropped)
}

func testPodOpensFlowToNodeDropped(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	n := l.Nodes[0]
	bpftest.Listen(t, n.NS, netip.AddrPortFrom(wire.IP(lab.NodeShadowV4), 8080))
	before := bpftest.Counts(t, n.Datapath)
	bpftest.In(t, red[10].NS, func() {
		dialer := net.Dialer{Timeout: bpftest.Shyness}
		if conn, err := dialer.Dial("tcp", lab.NodeShadowV4+":8080"); err == nil {
			conn.Close()
			t.Error("a pod connected to the node")
		}
	})
	if got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))["from_pod/node_closed"]; got == 0 {
		t.Error("the refused connection was not counted")
	}
}

func TestEgress_OpenVPC_LeavesUnderShadow(t *testing.T) {
	lab.OnEveryDevice(t, testEgressOpenVPCLeavesUnderShadow)
}

func testEgressOpenVPCLeavesUnderShadow(t *testing.T, device lab.PodDevice) {
	l, red, blue := lab.TwoTenants(t, device)
	n := l.Nodes[0]
	n.State.Closed = closedRanges()
	l.Apply()
	shadows := []netip.Addr{n.State.Interfaces[0].Shadow4, n.State.Interfaces[0].Shadow6}
	for family := range 2 {
		bpftest.Stream(t, red[10].NS, l.Outside, shadows[family], lab.OutsideAddrs[family])
		if !bpftest.Ping(t, red[10].NS, lab.OutsideAddrs[family], 56, bpftest.Patience) {
			t.Errorf("no answer to a ping of %s", lab.OutsideAddrs[family])
		}
	}
	before := bpftest.Counts(t, n.Datapath)
	if bpftest.Ping(t, blue[10].NS, lab.OutsideAddrs[0], 56, bpftest.Shyness) {
		t.Error("a VPC without egress reached the outside")
	}
	if got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))["from_pod/egress_closed"]; got == 0 {
		t.Error("the refused packet was not counted")
	}
}

func TestEgress_NarrowPathOutside_PodLearnsMTU(t *testing.T) {
	lab.OnEveryDevice(t, testEgressNarrowPathOutsidePodLearnsMTU)
}

func testEgressNarrowPathOutsidePodLearnsMTU(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	l.Nodes[0].State.Closed = closedRanges()
	l.Apply()
	bpftest.In(t, l.Nodes[0].NS, func() {
		uplink, err := netlink.LinkByIndex(l.Nodes[0].Uplink)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetMTU(uplink, 1300); err != nil {
			t.Fatal(err)
		}
	})
	for family := range 2 {
		addr := netip.AddrPortFrom(lab.OutsideAddrs[family], 8080)
		listener := bpftest.Listen(t, l.Outside, addr)
		conn, err := bpftest.Dial(t, red[10].NS, addr, 0)
		if err != nil {
			t.Fatal(err)
		}
		peer, _ := bpftest.Accept(t, listener)
		bpftest.Transfer(t, conn, peer)
		routes, err := routeMTU(t, red[10], lab.OutsideAddrs[family])
		if err != nil || routes != 1300 {
			t.Errorf("the pod knows a path MTU of %d to %s, %v, want 1300", routes, addr, err)
		}
	}
}

// routeMTU returns the path MTU that a pod has learned.
func routeMTU(t *testing.T, p *lab.Pod, dst netip.Addr) (mtu int, err error) {
	t.Helper()
	bpftest.In(t, p.NS, func() {
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

func TestSharedService_PodOfVPC_Reached(t *testing.T) {
	lab.OnEveryDevice(t, testSharedServicePodOfVPCReached)
}

func testSharedServicePodOfVPCReached(t *testing.T, device lab.PodDevice) {
	l, red, blue := lab.TwoTenants(t, device)
	n := l.Nodes[0]
	vip := netip.AddrPortFrom(wire.IP("10.96.0.1"), 443)
	n.State.Services = []state.Service{
		{VIP: vip.Addr(), Port: vip.Port(), Proto: state.ProtoTCP, Backends: []state.Backend{{IP: lab.OutsideAddrs[0], Port: 6443}}},
	}
	l.Apply()
	listener := bpftest.Listen(t, l.Outside, netip.AddrPortFrom(lab.OutsideAddrs[0], 6443))
	for i, p := range map[int]*lab.Pod{0: red[10], 2: blue[10]} {
		conn, err := bpftest.Dial(t, p.NS, vip, 0)
		if err != nil {
			t.Fatalf("connect to the service: %v", err)
		}
		peer, from := bpftest.Accept(t, listener)
		if want := n.State.Interfaces[i].Shadow4; from != want {
			t.Errorf("the backend sees %s, want %s", from, want)
		}
		bpftest.Transfer(t, conn, peer)
	}
	bpftest.In(t, red[10].NS, func() {
		closed := netip.AddrPortFrom(vip.Addr(), 444)
		dialer := net.Dialer{Timeout: bpftest.Patience}
		if _, err := dialer.Dial("tcp", closed.String()); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("connecting to %s, which is no port of the service: %v, want a refusal", closed, err)
		}
	})
	if got := bpftest.Counts(t, n.Datapath)["from_pod/replied_refused"]; got == 0 {
		t.Error("the refused port was not counted")
	}
}

func TestTunnelPackets_Forged_ReachNothing(t *testing.T) {
	lab.OnEveryDevice(t, testTunnelPacketsForgedReachNothing)
}

func testTunnelPacketsForgedReachNothing(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	n := l.Nodes[0]
	inner := wire.Frame{
		EthDst: state.MAC{2, 0, 10, 0, 1, 10}, EthSrc: world.MacR, Src: wire.IP("10.0.1.20"), Dst: red[10].Addrs[0],
		L4: wire.UDP{Sport: 1, Dport: 9000, Payload: []byte("forged")},
	}.Bytes()
	vxlan := binary.BigEndian.AppendUint32([]byte{8, 0, 0, 0}, lab.VNI1<<8)
	bpftest.In(t, red[10].NS, func() {
		rx, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(red[10].Addrs[0], 9000)))
		if err != nil {
			t.Fatal(err)
		}
		defer rx.Close()
		before := bpftest.Counts(t, n.Datapath)
		for family := range 2 {
			bpftest.In(t, l.Outside, func() {
				tx, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(lab.RouterAddrs[family], programs.DefaultTunnelPort)))
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Close()
				if _, err := tx.Write(slices.Concat(vxlan, inner)); err != nil {
					t.Fatal(err)
				}
			})
		}
		bpftest.Eventually(t, "both forged packets are counted", func() bool {
			return bpftest.Added(before, bpftest.Counts(t, n.Datapath))["from_tunnel/unknown_node"] == 2
		})
		silent(t, rx)
	})
}

func TestPodPackets_Spoofed_ReachNothing(t *testing.T) {
	lab.OnEveryDevice(t, testPodPacketsSpoofedReachNothing)
}

func testPodPacketsSpoofedReachNothing(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	n := l.Nodes[0]
	ordinary := wire.Frame{
		EthDst: state.VirtualMAC, EthSrc: state.MAC{2, 0, 10, 0, 1, 10}, Src: red[10].Addrs[0], Dst: red[11].Addrs[0],
		L4: wire.UDP{Sport: 1, Dport: 9000, Payload: []byte("spoofed")},
	}
	bpftest.In(t, red[11].NS, func() {
		rx, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(red[11].Addrs[0], 9000)))
		if err != nil {
			t.Fatal(err)
		}
		defer rx.Close()
		before := bpftest.Counts(t, n.Datapath)
		bpftest.In(t, red[10].NS, func() {
			sendRaw(t, red[10].Peer, ordinary.With(func(f *wire.Frame) { f.EthSrc = world.MacB }).Bytes())
			sendRaw(t, red[10].Peer, ordinary.With(func(f *wire.Frame) { f.Src = red[20].Addrs[0] }).Bytes())
		})
		bpftest.Eventually(t, "both spoofed packets are counted", func() bool {
			got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))
			return got["from_pod/spoofed_mac"] == 1 && got["from_pod/spoofed_ip"] == 1
		})
		silent(t, rx)
		// The same socket does receive packets that are not spoofed.
		bpftest.In(t, red[10].NS, func() { sendRaw(t, red[10].Peer, ordinary.Bytes()) })
		if got := receive(t, rx, bpftest.Patience); got != "spoofed" {
			t.Errorf("an honest packet gave %q", got)
		}
	})
}

func TestDrops_RealPackets_Reported(t *testing.T) { lab.OnEveryDevice(t, testDropsRealPacketsReported) }

func testDropsRealPacketsReported(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	n := l.Nodes[0]
	drops, err := n.Datapath.Drops()
	if err != nil {
		t.Fatal(err)
	}
	defer drops.Close()
	bpftest.In(t, red[10].NS, func() {
		f := wire.Frame{
			EthDst: state.VirtualMAC, EthSrc: state.MAC{2, 0, 10, 0, 1, 10}, Src: red[10].Addrs[0], Dst: wire.IP(lab.NodeShadowV4),
			L4: wire.TCP{Sport: 1000, Dport: 22, Flags: wire.FlagSYN},
		}
		sendRaw(t, red[10].Peer, f.Bytes())
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
			Ifindex: red[10].Ifindex, VNI: lab.VNI1, Reason: drop.Reason, Direction: telemetry.FromPod,
			Came:  telemetry.Tuple{Src: red[10].Addrs[0], Dst: wire.IP(lab.NodeShadowV4), Sport: 1000, Dport: 22},
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
	// With a netkit pair, sendto(2) fails when a program has dropped the packet.
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

// silent checks that no packet has been received. The packets in question have been counted as
// dropped before, so the check needs no wait.
func silent(t *testing.T, rx *net.UDPConn) {
	t.Helper()
	if got := receive(t, rx, bpftest.Shyness); got != "" {
		t.Errorf("received %q", got)
	}
}
