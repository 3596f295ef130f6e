// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// cookieOf returns the kernel's name of a namespace.
func cookieOf(t *testing.T, ns netns.NsHandle) uint64 {
	t.Helper()
	var cookie uint64
	bpftest.In(t, ns, func() {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		bpftest.Must(t, err)
		defer unix.Close(fd)
		cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		bpftest.Must(t, err)
	})
	return cookie
}

// socketTenants returns scaledTenants with the socket door open for the pods 10.
func socketTenants(t *testing.T) (l *lab.Lab, red, blue map[int]*lab.Pod) {
	return socketTenantsOn(t, lab.Veth)
}

func socketTenantsOn(t *testing.T, device lab.PodDevice) (l *lab.Lab, red, blue map[int]*lab.Pod) {
	l, red, blue = lab.ScaledTenants(t, device)
	n := l.Nodes[0]
	for vni, p := range map[uint32]*lab.Pod{lab.VNI1: red[10], lab.VNI2: blue[10]} {
		n.State.Namespaces = append(n.State.Namespaces, state.Namespace{
			Cookie: cookieOf(t, p.NS), Memberships: []state.Membership{{VNI: vni, Addrs: p.Addrs, Ifindex: p.Ifindex}},
		})
	}
	l.Apply()
	return l, red, blue
}

// nothingByPackets checks that the packet door has not seen any flow.
func nothingByPackets(t *testing.T, l *lab.Lab) {
	t.Helper()
	rows, err := world.FlowRows(l.Nodes[0].Datapath.Objects.AliothConnections)
	if err != nil || len(rows) != 0 {
		t.Errorf("the packet door has the flows %v, %v", rows, err)
	}
}

// replaceBackends gives a service of the first tenant other backends.
func replaceBackends(l *lab.Lab, vip netip.Addr, proto uint8, backends ...state.Backend) {
	for _, n := range l.Nodes {
		for i, s := range n.State.Services {
			if s.VNI == lab.VNI1 && s.VIP == vip && s.Proto == proto {
				n.State.Services[i].Backends = backends
			}
		}
	}
	l.Apply()
}

func TestTenantSockets_EqualServicesAndFlows_NeverCross(t *testing.T) {
	l, red, blue := socketTenants(t)
	for family, vip := range []string{world.VIPB, world.VipB6} {
		dst := netip.AddrPortFrom(wire.IP(vip), 80)
		backend := netip.AddrPortFrom(red[20].Addrs[family], 8080)
		before := bpftest.Counts(t, l.Nodes[0].Datapath)
		atRed, atBlue := bpftest.Listen(t, red[20].NS, backend), bpftest.Listen(t, blue[20].NS, backend)
		toRed, toBlue := from(t, red[10], 4001, dst), from(t, blue[10], 4001, dst)
		peerRed, _ := bpftest.Accept(t, atRed)
		peerBlue, _ := bpftest.Accept(t, atBlue)
		for name, pair := range map[string][2]net.Conn{"red": {toRed, peerRed}, "blue": {toBlue, peerBlue}} {
			fmt.Fprint(pair[0], name)
			buf := make([]byte, 16)
			bpftest.Must(t, pair[1].SetReadDeadline(time.Now().Add(bpftest.Patience)))
			if n, err := pair[1].Read(buf); err != nil || string(buf[:n]) != name {
				t.Errorf("the backend of %s got %q, %v", name, buf[:n], err)
			}
			if got := pair[0].RemoteAddr().String(); got != dst.String() {
				t.Errorf("the client of %s talks to %s, want %s", name, got, dst)
			}
		}
		bpftest.Transfer(t, toRed, peerRed)
		bpftest.Transfer(t, toBlue, peerBlue)
		if got := bpftest.Added(before, bpftest.Counts(t, l.Nodes[0].Datapath))["socket/service_rewritten"]; got != 2 {
			t.Errorf("%d connects were counted, want 2", got)
		}
	}
	nothingByPackets(t, l)
}

func TestSocket_MappedServiceAddress_Translated(t *testing.T) {
	l, red, _ := socketTenants(t)
	listener := bpftest.Listen(t, red[20].NS, netip.AddrPortFrom(red[20].Addrs[0], 8080))
	bpftest.In(t, red[10].NS, func() {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		bpftest.Must(t, err)
		defer unix.Close(fd)
		want := &unix.SockaddrInet6{Port: 80, Addr: wire.IP(world.VIPB).As16()}
		bpftest.Must(t, unix.Connect(fd, want))
		got, err := unix.Getpeername(fd)
		bpftest.Must(t, err)
		if peer := got.(*unix.SockaddrInet6); peer.Addr != want.Addr || peer.Port != want.Port {
			t.Errorf("the peer is %v port %d", netip.AddrFrom16(peer.Addr), peer.Port)
		}
	})
	bpftest.Accept(t, listener)
	if got := bpftest.Counts(t, l.Nodes[0].Datapath)["socket/service_rewritten"]; got != 1 {
		t.Errorf("%d connects were counted, want 1", got)
	}
}

func TestSocket_ServiceWithoutBackend_Refused(t *testing.T) {
	l, red, _ := socketTenants(t)
	for _, vip := range []string{world.VipNone, world.VipNone6} {
		refusesAtSocket(t, l.Nodes[0], red[10], wire.IP(vip), 80, 53)
	}
}

func TestSocket_UnknownServicePort_Refused(t *testing.T) {
	l, red, _ := socketTenants(t)
	for _, vip := range []string{world.VIPB, world.VipB6} {
		refusesAtSocket(t, l.Nodes[0], red[10], wire.IP(vip), 81, 80)
	}
}

// refusesAtSocket checks that an address refuses a pod's sockets at a port of TCP and at one
// of UDP, without a packet.
func refusesAtSocket(t *testing.T, n *lab.Node, from *lab.Pod, at netip.Addr, tcp, udp uint16) {
	t.Helper()
	before := bpftest.Counts(t, n.Datapath)
	if _, err := bpftest.Dial(t, from.NS, netip.AddrPortFrom(at, tcp), 0); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("connecting to %s: %v, want a refusal", at, err)
	}
	bpftest.In(t, from.NS, func() {
		to := netip.AddrPortFrom(at, udp)
		if _, err := net.Dial("udp", to.String()); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("connecting a socket for datagrams to %s: %v, want a refusal", to, err)
		}
		conn, err := net.ListenUDP("udp", nil)
		bpftest.Must(t, err)
		defer conn.Close()
		if _, err = conn.WriteToUDPAddrPort([]byte("anybody?"), to); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("a datagram to %s: %v, want a refusal", to, err)
		}
	})
	got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))
	if got["socket/replied_refused"] != 3 || got["from_pod/replied_refused"] != 0 {
		t.Errorf("the refusals were counted as %v", got)
	}
}

// echo answers one datagram, and returns the address of its sender.
func echo(t *testing.T, server *net.UDPConn) netip.AddrPort {
	t.Helper()
	buf := make([]byte, 64)
	bpftest.Must(t, server.SetDeadline(time.Now().Add(bpftest.Patience)))
	n, asker, err := server.ReadFromUDPAddrPort(buf)
	bpftest.Must(t, err)
	_, err = server.WriteToUDPAddrPort(buf[:n], asker)
	bpftest.Must(t, err)
	return asker
}

// hears reads one datagram, and checks who seems to have sent it.
func hears(t *testing.T, client *net.UDPConn, want netip.AddrPort) {
	t.Helper()
	bpftest.Must(t, client.SetDeadline(time.Now().Add(bpftest.Patience)))
	_, sender, err := client.ReadFromUDPAddrPort(make([]byte, 64))
	bpftest.Must(t, err)
	if got := netip.AddrPortFrom(sender.Addr().Unmap(), sender.Port()); got != want {
		t.Errorf("the answer seems to come from %s, want %s", got, want)
	}
}

func serve(t *testing.T, p *lab.Pod, at netip.AddrPort) *net.UDPConn {
	t.Helper()
	var server *net.UDPConn
	bpftest.In(t, p.NS, func() {
		var err error
		server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		bpftest.Must(t, err)
	})
	t.Cleanup(func() { server.Close() })
	return server
}

// unconnected opens a UDP socket of a network, "udp" for one of both families.
func unconnected(t *testing.T, p *lab.Pod, network string) *net.UDPConn {
	t.Helper()
	var client *net.UDPConn
	bpftest.In(t, p.NS, func() {
		var err error
		client, err = net.ListenUDP(network, nil)
		bpftest.Must(t, err)
	})
	t.Cleanup(func() { client.Close() })
	return client
}

func TestSocket_Datagrams_Translated(t *testing.T) {
	l, red, _ := socketTenants(t)
	for family, network := range []string{"udp4", "udp6"} {
		vip := netip.AddrPortFrom(wire.IP([]string{world.VIPB, world.VipB6}[family]), 53)
		backend := netip.AddrPortFrom(red[20].Addrs[family], 8080)
		server, other := serve(t, red[20], backend), serve(t, red[20], netip.AddrPortFrom(backend.Addr(), 8081))
		for _, network := range []string{network, "udp"} {
			client := unconnected(t, red[10], network)
			for range 2 {
				_, err := client.WriteToUDPAddrPort([]byte("hello"), vip)
				bpftest.Must(t, err)
				asker := echo(t, server)
				hears(t, client, vip)
				// A datagram of the same host from another port keeps its own source.
				_, err = other.WriteToUDPAddrPort([]byte("hello"), asker)
				bpftest.Must(t, err)
				hears(t, client, netip.AddrPortFrom(backend.Addr(), 8081))
			}
		}
	}
	nothingByPackets(t, l)
}

// connected opens a UDP socket that talks to one address.
func connected(t *testing.T, p *lab.Pod, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	var client *net.UDPConn
	bpftest.In(t, p.NS, func() {
		var err error
		client, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		bpftest.Must(t, err)
	})
	t.Cleanup(func() { client.Close() })
	if got := client.RemoteAddr().String(); got != to.String() {
		t.Errorf("the client talks to %s, want %s", got, to)
	}
	return client
}

func TestConnectedUDPSocket_NotEnded_MovesToOther(t *testing.T) {
	l, red, _ := socketTenants(t)
	l.Nodes[0].Restart(t, func() { l.Nodes[0].Config.ConnectedDatagrams = false })
	vip := netip.AddrPortFrom(wire.IP(world.VIPB), 53)
	old := serve(t, red[20], netip.AddrPortFrom(red[20].Addrs[0], 8080))
	fresh := serve(t, red[11], netip.AddrPortFrom(red[11].Addrs[0], 8080))
	client := connected(t, red[10], vip)
	for i, server := range []*net.UDPConn{old, fresh} {
		if i == 1 {
			replaceBackends(l, vip.Addr(), state.ProtoUDP, state.Backend{IP: red[11].Addrs[0], Port: 8080})
		}
		_, err := client.Write([]byte("hello"))
		bpftest.Must(t, err)
		echo(t, server)
		hears(t, client, vip)
	}
}

func TestSocket_BackendRemains_KeepsIt(t *testing.T) {
	l, red, _ := socketTenants(t)
	vip := netip.AddrPortFrom(wire.IP(world.VIPB), 53)
	var servers []*net.UDPConn
	var backends []state.Backend
	for port := uint16(9000); port < 9008; port++ {
		backends = append(backends, state.Backend{IP: red[11].Addrs[0], Port: port})
		servers = append(servers, serve(t, red[11], netip.AddrPortFrom(red[11].Addrs[0], port)))
	}
	replaceBackends(l, vip.Addr(), state.ProtoUDP, backends...)
	client := unconnected(t, red[10], "udp4")
	// asked returns the index of the server that one datagram has reached.
	asked := func() int {
		t.Helper()
		_, err := client.WriteToUDPAddrPort([]byte("hello"), vip)
		bpftest.Must(t, err)
		found := -1
		bpftest.Eventually(t, "a datagram arrives", func() bool {
			found = slices.IndexFunc(servers, func(s *net.UDPConn) bool {
				bpftest.Must(t, s.SetReadDeadline(time.Now().Add(time.Millisecond)))
				_, _, err := s.ReadFromUDPAddrPort(make([]byte, 64))
				return err == nil
			})
			return found >= 0
		})
		return found
	}
	first := asked()
	for range 16 {
		if next := asked(); next != first {
			t.Fatalf("one datagram went to backend %d, another to %d", first, next)
		}
	}
	replaceBackends(l, vip.Addr(), state.ProtoUDP, slices.Delete(slices.Clone(backends), first, first+1)...)
	second := asked()
	if second == first {
		t.Errorf("a datagram went to the backend that is gone")
	}
	replaceBackends(l, vip.Addr(), state.ProtoUDP, backends...)
	if next := asked(); next != second {
		t.Errorf("the socket went on from backend %d to %d", second, next)
	}
}

func TestSocketConnection_BackendPlaceChanges_Survives(t *testing.T) {
	l, red, _ := socketTenants(t)
	dst := netip.AddrPortFrom(wire.IP(world.VIPB), 80)
	old := bpftest.Listen(t, red[20].NS, netip.AddrPortFrom(red[20].Addrs[0], 8080))
	fresh := bpftest.Listen(t, red[11].NS, netip.AddrPortFrom(red[11].Addrs[0], 8080))
	conn, err := bpftest.Dial(t, red[10].NS, dst, 0)
	bpftest.Must(t, err)
	peer, _ := bpftest.Accept(t, old)
	replaceBackends(l, dst.Addr(), state.ProtoTCP, state.Backend{IP: red[11].Addrs[0], Port: 8080})
	for range 8 {
		next, err := bpftest.Dial(t, red[10].NS, dst, 0)
		bpftest.Must(t, err)
		served, _ := bpftest.Accept(t, fresh)
		next.Close()
		served.Close()
	}
	lab.Talk(t, conn, peer)
	nothingByPackets(t, l)
}

func TestSocket_PodIsItsBackend_ReachesItself(t *testing.T) {
	l, red, _ := socketTenants(t)
	for family, vip := range []string{world.VipSelf, world.VipSelf6} {
		own := bpftest.Listen(t, red[10].NS, netip.AddrPortFrom(red[10].Addrs[family], 8080))
		conn, err := bpftest.Dial(t, red[10].NS, netip.AddrPortFrom(wire.IP(vip), 80), 0)
		bpftest.Must(t, err)
		peer, _ := bpftest.Accept(t, own)
		lab.Talk(t, conn, peer)
	}
	nothingByPackets(t, l)
}

// The backend of a shared service has the address of another pod of the tenant.
func TestTenantSocket_SharedService_NotTranslated(t *testing.T) {
	l, red, _ := socketTenants(t)
	n := l.Nodes[0]
	vip := netip.AddrPortFrom(wire.IP("10.96.0.1"), 443)
	for _, proto := range []uint8{state.ProtoTCP, state.ProtoUDP} {
		n.State.Services = append(n.State.Services, state.Service{
			VIP: vip.Addr(), Port: vip.Port(), Proto: proto, Backends: []state.Backend{{IP: red[11].Addrs[0], Port: 8080}},
		})
	}
	for i := range n.State.Namespaces {
		n.State.Namespaces[i].Shared = true // and if it were the default VPC's
	}
	l.Apply()
	_, err := unconnected(t, red[10], "udp4").WriteToUDPAddrPort([]byte("hello"), vip)
	bpftest.Must(t, err)
	got := bpftest.Counts(t, n.Datapath)
	if got["socket/service_rewritten"] != 0 || got["from_pod/to_stack"] != 1 {
		t.Errorf("counted as %v, want one packet at the shadow door", got)
	}
}

func TestSockets_DaemonRestarts_Survive(t *testing.T) {
	l, red, _ := socketTenants(t)
	listener := bpftest.Listen(t, red[20].NS, netip.AddrPortFrom(red[20].Addrs[0], 8080))
	server := serve(t, red[20], netip.AddrPortFrom(red[20].Addrs[0], 8080))
	tcp, udp := netip.AddrPortFrom(wire.IP(world.VIPB), 80), netip.AddrPortFrom(wire.IP(world.VIPB), 53)
	client := unconnected(t, red[10], "udp4")
	ask := func() {
		t.Helper()
		_, err := client.WriteToUDPAddrPort([]byte("hello"), udp)
		bpftest.Must(t, err)
		echo(t, server)
	}
	conn, err := bpftest.Dial(t, red[10].NS, tcp, 0)
	bpftest.Must(t, err)
	peer, _ := bpftest.Accept(t, listener)
	ask()
	l.Nodes[0].Restart(t, func() {
		lab.Talk(t, conn, peer)
		begins(t, red[10], tcp, listener)
	})
	lab.Talk(t, conn, peer)
	// Sockets keep the mapping that they had before.
	hears(t, client, udp)
	ask()
	hears(t, client, udp)
	nothingByPackets(t, l)
}

func TestAffinity_SocketAndPackets_SameBackend(t *testing.T) {
	l, red, _ := lab.ScaledTenants(t, lab.Veth)
	n := l.Nodes[0]
	var backends []state.Backend
	var listeners []net.Listener
	for port := uint16(9000); port < 9008; port++ {
		backends = append(backends, state.Backend{IP: red[11].Addrs[0], Port: port})
		listeners = append(listeners, bpftest.Listen(t, red[11].NS, netip.AddrPortFrom(red[11].Addrs[0], port)))
	}
	vip := wire.IP(world.VIPB)
	for i, s := range n.State.Services {
		if s.VIP == vip && s.Proto == state.ProtoTCP {
			n.State.Services[i].Affinity = time.Hour
		}
	}
	replaceBackends(l, vip, state.ProtoTCP, backends...)
	served := make(chan int)
	for i, listener := range listeners {
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				conn.Close()
				served <- i
			}
		}()
	}
	connect := func() int {
		t.Helper()
		conn, err := bpftest.Dial(t, red[10].NS, netip.AddrPortFrom(vip, 80), 0)
		bpftest.Must(t, err)
		defer conn.Close()
		return <-served
	}
	byPackets := connect()
	n.State.Namespaces = []state.Namespace{{
		Cookie: cookieOf(t, red[10].NS), Memberships: []state.Membership{{VNI: lab.VNI1, Addrs: red[10].Addrs, Ifindex: red[10].Ifindex}},
	}}
	l.Apply()
	world.Crowd(t, n.Datapath, lab.VNI2) // which takes nothing from the other VPC
	for range 16 {
		if bySocket := connect(); bySocket != byPackets {
			t.Fatalf("a packet took the client to backend %d, a socket to %d", byPackets, bySocket)
		}
	}
	if got := bpftest.Counts(t, n.Datapath)["socket/service_rewritten"]; got != 16 {
		t.Errorf("%d connects were counted at the socket, want 16", got)
	}
}
