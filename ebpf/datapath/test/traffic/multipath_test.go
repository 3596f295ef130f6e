// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
)

// multipath opens a socket of MPTCP in a pod.
func multipath(t *testing.T, p *lab.Pod, domain int) int {
	t.Helper()
	fd := -1
	bpftest.In(t, p.NS, func() {
		var err error
		fd, err = unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
		if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ENOPROTOOPT) {
			t.Skip("missing feature: MPTCP")
		}
		bpftest.Must(t, err)
	})
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// sockaddrOf returns an address in the form of a domain; IPv4 in the mapped form for IPv6.
func sockaddrOf(domain int, at netip.AddrPort) unix.Sockaddr {
	if domain == unix.AF_INET {
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}

// expectPeer checks the peer that the process sees.
func expectPeer(t *testing.T, fd int, want netip.AddrPort) {
	t.Helper()
	name, err := unix.Getpeername(fd)
	bpftest.Must(t, err)
	var got netip.AddrPort
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		got = netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port))
	case *unix.SockaddrInet6:
		got = netip.AddrPortFrom(netip.AddrFrom16(name.Addr).Unmap(), uint16(name.Port))
	}
	if got != want {
		t.Errorf("the peer is %s, want %s", got, want)
	}
}

// The server speaks MPTCP, or only TCP. The client's kernel then falls back to TCP.
func TestMPTCPSocket_ServiceConnection_PeerIsService(t *testing.T) {
	l, red, _ := socketTenants(t)
	for _, speaks := range []bool{true, false} {
		for name, c := range map[string]struct {
			domain, family int
			vip            string
		}{
			"IPv4": {unix.AF_INET, 0, world.VIPB}, "IPv6": {unix.AF_INET6, 1, world.VipB6}, "mapped": {unix.AF_INET6, 0, world.VIPB},
		} {
			t.Run(name, func(t *testing.T) {
				backend := netip.AddrPortFrom(red[20].Addrs[c.family], 8080)
				service := netip.AddrPortFrom(wire.IP(c.vip), 80)
				var listen net.ListenConfig
				listen.SetMultipathTCP(speaks)
				bpftest.In(t, red[20].NS, func() {
					listener, err := listen.Listen(context.Background(), "tcp", backend.String())
					bpftest.Must(t, err)
					t.Cleanup(func() { listener.Close() })
				})
				fd := multipath(t, red[10], c.domain)
				// A connect that fails, and one to the backend's own address.
				lacking := netip.AddrPortFrom(service.Addr(), 81)
				if err := unix.Connect(fd, sockaddrOf(c.domain, lacking)); !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("connecting to %s: %v, want a refusal", lacking, err)
				}
				bpftest.Must(t, unix.Connect(fd, sockaddrOf(c.domain, backend)))
				expectPeer(t, fd, backend)
				fd = multipath(t, red[10], c.domain)
				bpftest.Must(t, unix.Connect(fd, sockaddrOf(c.domain, service)))
				expectPeer(t, fd, service)
			})
		}
	}
	nothingByPackets(t, l)
}
