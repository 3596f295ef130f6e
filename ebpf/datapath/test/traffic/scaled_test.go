// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// from dials from a chosen port.
func from(t *testing.T, p *lab.Pod, port uint16, dst netip.AddrPort) net.Conn {
	t.Helper()
	var conn net.Conn
	bpftest.In(t, p.NS, func() {
		source := p.Addrs[0]
		if dst.Addr().Is6() {
			source = p.Addrs[1]
		}
		dialer := net.Dialer{Timeout: bpftest.Patience, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, port))}
		var err error
		if conn, err = dialer.Dial("tcp", dst.String()); err != nil {
			t.Fatalf("connect to %s: %v", dst, err)
		}
	})
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestTenants_EqualServicesAndFlows_NeverCross(t *testing.T) {
	lab.OnEveryDevice(t, testTenantsEqualServicesAndFlowsNeverCross)
}

func testTenantsEqualServicesAndFlowsNeverCross(t *testing.T, device lab.PodDevice) {
	_, red, blue := lab.ScaledTenants(t, device)
	for family, vip := range []string{world.VIPB, world.VipB6} {
		dst := netip.AddrPortFrom(wire.IP(vip), 80)
		backend := netip.AddrPortFrom(red[20].Addrs[family], 8080)
		atRed, atBlue := bpftest.Listen(t, red[20].NS, backend), bpftest.Listen(t, blue[20].NS, backend)
		// One and the same 5-tuple at once, in two VPCs of one node.
		toRed, toBlue := from(t, red[10], 4000, dst), from(t, blue[10], 4000, dst)
		peerRed, clientRed := bpftest.Accept(t, atRed)
		peerBlue, clientBlue := bpftest.Accept(t, atBlue)
		if clientRed != red[10].Addrs[family] || clientBlue != blue[10].Addrs[family] {
			t.Errorf("the backends see %s and %s", clientRed, clientBlue)
		}
		for name, pair := range map[string][2]net.Conn{"red": {toRed, peerRed}, "blue": {toBlue, peerBlue}} {
			fmt.Fprint(pair[0], name)
			buf := make([]byte, 16)
			n, err := pair[1].Read(buf)
			if err != nil || string(buf[:n]) != name {
				t.Errorf("the backend of %s got %q, %v", name, buf[:n], err)
			}
		}
		bpftest.Transfer(t, toRed, peerRed)
		bpftest.Transfer(t, toBlue, peerBlue)
	}
}

func TestService_Datagrams_ArriveAndReturn(t *testing.T) {
	lab.OnEveryDevice(t, testServiceDatagramsArriveAndReturn)
}

func testServiceDatagramsArriveAndReturn(t *testing.T, device lab.PodDevice) {
	_, red, _ := lab.ScaledTenants(t, device)
	for family, vip := range []string{world.VIPB, world.VipB6} {
		var server, client *net.UDPConn
		bpftest.In(t, red[20].NS, func() {
			var err error
			server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(red[20].Addrs[family], 8080)))
			bpftest.Must(t, err)
		})
		defer server.Close()
		bpftest.In(t, red[10].NS, func() {
			var err error
			client, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(wire.IP(vip), 53)))
			bpftest.Must(t, err)
		})
		defer client.Close()
		for _, size := range []int{10, 1300, 20000} { // the last one in fragments
			deadline := time.Now().Add(bpftest.Patience)
			bpftest.Must(t, client.SetDeadline(deadline))
			bpftest.Must(t, server.SetDeadline(deadline))
			_, err := client.Write(make([]byte, size))
			bpftest.Must(t, err)
			buf := make([]byte, 1<<16)
			n, asker, err := server.ReadFromUDPAddrPort(buf)
			if err != nil || n != size {
				t.Fatalf("%s: %d bytes of %d arrived: %v", vip, n, size, err)
			}
			_, err = server.WriteToUDPAddrPort(buf[:n], asker)
			bpftest.Must(t, err)
			if n, err = client.Read(buf); err != nil || n != size {
				t.Fatalf("%s: %d bytes of %d came back: %v", vip, n, size, err)
			}
		}
	}
}

func TestService_PodIsItsBackend_ReachesItself(t *testing.T) {
	lab.OnEveryDevice(t, testServicePodIsItsBackendReachesItself)
}

func testServicePodIsItsBackendReachesItself(t *testing.T, device lab.PodDevice) {
	_, red, _ := lab.ScaledTenants(t, device)
	for family, vip := range []string{world.VipSelf, world.VipSelf6} {
		own := bpftest.Listen(t, red[10].NS, netip.AddrPortFrom(red[10].Addrs[family], 8080))
		conn, err := bpftest.Dial(t, red[10].NS, netip.AddrPortFrom(wire.IP(vip), 80), 0)
		if err != nil {
			t.Fatalf("a pod does not reach itself by %s: %v", vip, err)
		}
		peer, seen := bpftest.Accept(t, own)
		if want := []netip.Addr{wire.IP("10.0.1.1"), wire.IP("fd10:0:0:1::1")}[family]; seen != want {
			t.Errorf("the pod sees itself as %s, want %s", seen, want)
		}
		bpftest.Transfer(t, conn, peer)
	}
}

func TestService_NoBackend_RefusedAtOnce(t *testing.T) {
	lab.OnEveryDevice(t, testServiceNoBackendRefusedAtOnce)
}

func testServiceNoBackendRefusedAtOnce(t *testing.T, device lab.PodDevice) {
	_, red, _ := lab.ScaledTenants(t, device)
	for _, vip := range []string{world.VipNone, world.VipNone6} {
		refusesByPackets(t, red[10], wire.IP(vip), 80, 53)
		if !bpftest.Ping(t, red[10].NS, wire.IP(vip), 56, bpftest.Patience) {
			t.Errorf("%s does not answer a ping", vip)
		}
	}
}

// refusesByPackets checks that an address refuses a pod at a port of TCP and at one of UDP.
func refusesByPackets(t *testing.T, from *lab.Pod, at netip.Addr, tcp, udp uint16) {
	t.Helper()
	if _, err := bpftest.Dial(t, from.NS, netip.AddrPortFrom(at, tcp), 0); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("connecting to %s: %v, want a refusal", at, err)
	}
	bpftest.In(t, from.NS, func() {
		conn, err := net.Dial("udp", netip.AddrPortFrom(at, udp).String())
		bpftest.Must(t, err)
		defer conn.Close()
		bpftest.Must(t, conn.SetDeadline(time.Now().Add(bpftest.Patience)))
		_, err = conn.Write([]byte("anybody?"))
		bpftest.Must(t, err)
		if _, err := conn.Read(make([]byte, 16)); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("a datagram to %s: %v, want a refusal", at, err)
		}
	})
}

func TestService_UnknownPort_RefusedAtOnce(t *testing.T) {
	lab.OnEveryDevice(t, testServiceUnknownPortRefusedAtOnce)
}

func testServiceUnknownPortRefusedAtOnce(t *testing.T, device lab.PodDevice) {
	_, red, _ := lab.ScaledTenants(t, device)
	for _, vip := range []string{world.VIPB, world.VipB6} {
		refusesByPackets(t, red[10], wire.IP(vip), 81, 80)
	}
}

func TestService_BackendRefuses_ErrorNamesService(t *testing.T) {
	_, red, _ := lab.ScaledTenants(t, lab.Veth)
	for _, vip := range []string{world.VIPB, world.VipB6} {
		bpftest.In(t, red[10].NS, func() {
			conn, err := net.Dial("udp", netip.AddrPortFrom(wire.IP(vip), 53).String())
			bpftest.Must(t, err)
			defer conn.Close()
			bpftest.Must(t, conn.SetDeadline(time.Now().Add(bpftest.Patience)))
			_, err = conn.Write([]byte("anybody?"))
			bpftest.Must(t, err)
			if _, err := conn.Read(make([]byte, 16)); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("%s, where the backend's port is closed: %v, want a refusal", vip, err)
			}
		})
	}
}

func TestBackend_Removed_OnlyOldConnectionsKept(t *testing.T) {
	l, red, _ := lab.ScaledTenants(t, lab.Veth)
	dst := netip.AddrPortFrom(wire.IP(world.VIPB), 80)
	old := bpftest.Listen(t, red[20].NS, netip.AddrPortFrom(red[20].Addrs[0], 8080))
	fresh := bpftest.Listen(t, red[11].NS, netip.AddrPortFrom(red[11].Addrs[0], 8080))
	conn, err := bpftest.Dial(t, red[10].NS, dst, 0)
	bpftest.Must(t, err)
	peer, _ := bpftest.Accept(t, old)
	for _, n := range l.Nodes {
		for i, s := range n.State.Services {
			if s.VNI == lab.VNI1 && s.VIP == dst.Addr() {
				n.State.Services[i].Backends = []state.Backend{{IP: red[11].Addrs[0], Port: 8080}}
			}
		}
	}
	l.Apply()
	lab.Talk(t, conn, peer)
	for range 8 {
		next, err := bpftest.Dial(t, red[10].NS, dst, 0)
		bpftest.Must(t, err)
		served, _ := bpftest.Accept(t, fresh)
		next.Close()
		served.Close()
	}
	lab.Talk(t, conn, peer)
}

func TestService_DaemonRestarts_StillServed(t *testing.T) {
	l, red, _ := lab.ScaledTenants(t, lab.Veth)
	listener := bpftest.Listen(t, red[20].NS, netip.AddrPortFrom(red[20].Addrs[0], 8080))
	dst := netip.AddrPortFrom(wire.IP(world.VIPB), 80)
	conn, err := bpftest.Dial(t, red[10].NS, dst, 0)
	bpftest.Must(t, err)
	peer, _ := bpftest.Accept(t, listener)
	l.Nodes[0].Restart(t, func() {
		lab.Talk(t, conn, peer)
		begins(t, red[10], dst, listener)
	})
	lab.Talk(t, conn, peer)
}

// begins makes sure that a connection to a service can be opened.
func begins(t *testing.T, client *lab.Pod, service netip.AddrPort, backend net.Listener) {
	t.Helper()
	conn, err := bpftest.Dial(t, client.NS, service, 0)
	bpftest.Must(t, err)
	served, _ := bpftest.Accept(t, backend)
	lab.Talk(t, conn, served)
}

func TestUpgrade_ToVPCServices_FlowsKept(t *testing.T) {
	l, red, _ := lab.ScaledTenants(t, lab.Veth)
	listener := bpftest.Listen(t, red[20].NS, netip.AddrPortFrom(red[20].Addrs[0], 8080))
	conn, err := bpftest.Dial(t, red[10].NS, netip.AddrPortFrom(wire.IP(world.VIPB), 80), 0)
	bpftest.Must(t, err)
	peer, _ := bpftest.Accept(t, listener)
	n := l.Nodes[0]
	n.Restart(t, func() {
		// An earlier version has none of these.
		for _, name := range []string{"alioth_choices", "alioth_maglev", bpf.AffinitiesMap} {
			bpftest.Must(t, os.Remove(filepath.Join(n.Config.PinDir, name)))
		}
	})
	lab.Talk(t, conn, peer)
}
