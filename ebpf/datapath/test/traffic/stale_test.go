// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// describe returns the entry of a pod's stale socket.
func describe(t *testing.T, conn *net.UDPConn, remote netip.AddrPort) connections.StaleSocket {
	t.Helper()
	s := connections.StaleSocket{Remote: remote}
	bpftest.OnSocket(t, conn, func(fd int) (err error) {
		if s.Cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE); err != nil {
			return err
		}
		name, err := unix.Getsockname(fd)
		switch name := name.(type) {
		case *unix.SockaddrInet4:
			s.Local = netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port))
		case *unix.SockaddrInet6:
			s.Local = netip.AddrPortFrom(netip.AddrFrom16(name.Addr).Unmap(), uint16(name.Port))
		}
		return err
	})
	return s
}

// expectStale looks for stale sockets in the namespaces of pods.
func expectStale(t *testing.T, d *bpftest.Datapath, pods []*lab.Pod, want ...connections.StaleSocket) {
	t.Helper()
	var got []connections.StaleSocket
	for _, p := range pods {
		bpftest.In(t, p.NS, func() {
			found, err := d.StaleSockets()
			bpftest.Must(t, err)
			got = append(got, found...)
		})
	}
	byCookie := func(a, b connections.StaleSocket) int { return cmp.Compare(a.Cookie, b.Cookie) }
	slices.SortFunc(got, byCookie)
	slices.SortFunc(want, byCookie)
	if diff := gocmp.Diff(want, got, cmpopts.EquateComparable(netip.AddrPort{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("stale sockets (-want +got):\n%s", diff)
	}
}

// disconnect removes the peer of a socket, connect(2).
func disconnect(t *testing.T, conn *net.UDPConn) {
	t.Helper()
	bpftest.OnSocket(t, conn, func(fd int) error {
		nobody := unix.RawSockaddrInet4{Family: unix.AF_UNSPEC}
		_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&nobody)), unix.SizeofSockaddrInet4)
		if errno != 0 {
			return errno
		}
		return nil
	})
}

// Without a host end no program sends the packets of a socket to another backend.
func TestStaleSockets_NoHostEnd_ByAskedBackend(t *testing.T) {
	l, red, blue := socketTenants(t)
	n := l.Nodes[0]
	for _, namespace := range n.State.Namespaces {
		namespace.Memberships[0].Ifindex = 0
	}
	l.Apply()
	v4, v6 := netip.AddrPortFrom(wire.IP(world.VIPB), 53), netip.AddrPortFrom(wire.IP(world.VipB6), 53)
	old4, old6 := netip.AddrPortFrom(red[20].Addrs[0], 8080), netip.AddrPortFrom(red[20].Addrs[1], 8080)
	mapped, moved := unconnected(t, red[10], "udp"), connected(t, red[10], v4)
	bpftest.OnSocket(t, mapped, func(fd int) error {
		return unix.Connect(fd, &unix.SockaddrInet6{Port: int(v4.Port()), Addr: v4.Addr().As16()})
	})
	askers := []*lab.Pod{blue[10], red[10]}
	lost := []connections.StaleSocket{
		describe(t, connected(t, red[10], v4), old4),
		describe(t, connected(t, red[10], v6), old6),
		describe(t, mapped, old4),
	}
	// The same for the other VPC, for the backend by its own name, for sockets that have gone on to
	// another target or to none, and for a TCP socket.
	connected(t, blue[10], v4)
	connected(t, red[10], old4)
	bpftest.OnSocket(t, moved, func(fd int) error {
		return unix.Connect(fd, &unix.SockaddrInet4{Port: 53, Addr: wire.IP(world.VipSelf).As4()})
	})
	disconnect(t, connected(t, red[10], v4))
	bpftest.Listen(t, red[20].NS, old4)
	_, err := bpftest.Dial(t, red[10].NS, netip.AddrPortFrom(v4.Addr(), 80), 0)
	bpftest.Must(t, err)
	nothingByPackets(t, l)
	expectStale(t, n.Datapath, askers)
	n.Datapath.ServicesChanged()
	replaceBackends(l, v4.Addr(), state.ProtoTCP)
	replaceBackends(l, v4.Addr(), state.ProtoUDP, state.Backend{IP: red[11].Addrs[0], Port: 8080})
	replaceBackends(l, v6.Addr(), state.ProtoUDP)
	if !n.Datapath.ServicesChanged() || n.Datapath.ServicesChanged() {
		t.Error("that services have changed is not told once")
	}
	expectStale(t, n.Datapath, askers, lost...)
	n.Restart(t, func() {})
	expectStale(t, n.Datapath, askers, lost...)
	replaceBackends(l, v4.Addr(), state.ProtoUDP, state.Backend{IP: old4.Addr(), Port: 8080}, state.Backend{IP: red[11].Addrs[0], Port: 8080})
	expectStale(t, n.Datapath, askers, lost[1])
}

// With a host end a socket is stale once its service is gone: its packets get an error until
// the daemon ends it.
func TestStaleSockets_HostEndAndServiceGone_Found(t *testing.T) {
	l, red, blue := socketTenants(t)
	n := l.Nodes[0]
	vip, askers := netip.AddrPortFrom(wire.IP(world.VIPB), 53), []*lab.Pod{red[10], blue[10]}
	client := connected(t, red[10], vip)
	connected(t, blue[10], vip)
	replaceBackends(l, vip.Addr(), state.ProtoUDP)
	expectStale(t, n.Datapath, askers)
	n.State.Services = slices.DeleteFunc(n.State.Services, func(s state.Service) bool {
		return s.VNI == lab.VNI1 && s.VIP == vip.Addr() && s.Proto == state.ProtoUDP
	})
	l.Apply()
	refusesEach(t, client)
	expectStale(t, n.Datapath, askers, describe(t, client, netip.AddrPortFrom(red[20].Addrs[0], 8080)))
}

// The node's packets to a backend may leave by any of its devices.
func TestStaleSockets_NodeAndBackendReplaced_Found(t *testing.T) {
	l, red, _ := lab.ScaledTenants(t, lab.Veth)
	n, node, vip := l.Nodes[0], nodeOfVPC(t, l), netip.AddrPortFrom(wire.IP(world.VIPB), 53)
	client := connected(t, node, vip)
	expectStale(t, n.Datapath, []*lab.Pod{node})
	replaceBackends(l, vip.Addr(), state.ProtoUDP, state.Backend{IP: red[11].Addrs[0], Port: 8080})
	expectStale(t, n.Datapath, []*lab.Pod{node}, describe(t, client, netip.AddrPortFrom(red[20].Addrs[0], 8080)))
}
