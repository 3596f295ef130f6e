// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestListens_NodeSockets_Found(t *testing.T) {
	n := newNode(t)
	n.in(t, func() error {
		for _, address := range []string{"0.0.0.0:7000", "192.0.2.1:7001", "[::]:7002", "[2001:db8::1]:7003"} {
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = listener.Close() })
		}
		server, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "192.0.2.1:7001")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = server.Close() })
		connected, err := (&net.Dialer{LocalAddr: &net.UDPAddr{Port: 7004}}).DialContext(t.Context(), "udp", "192.0.2.1:7001")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = connected.Close() })
		for _, c := range []struct {
			protocol uint8
			ip       string
			port     uint16
			want     bool
		}{
			{unix.IPPROTO_TCP, "", 7000, true},
			{unix.IPPROTO_TCP, "192.0.2.1", 7000, true},
			{unix.IPPROTO_UDP, "", 7000, false},
			{unix.IPPROTO_TCP, "", 7001, true},
			{unix.IPPROTO_TCP, "192.0.2.1", 7001, true},
			{unix.IPPROTO_TCP, "127.0.0.1", 7001, false},
			{unix.IPPROTO_TCP, "192.0.2.1", 7002, true},
			{unix.IPPROTO_TCP, "2001:db8::1", 7003, true},
			{unix.IPPROTO_TCP, "::1", 7003, false},
			{unix.IPPROTO_UDP, "", 7001, true},
			{unix.IPPROTO_UDP, "", 7004, false}, // it receives from one peer only
			{unix.IPPROTO_TCP, "", 7009, false},
			{unix.IPPROTO_SCTP, "", 7000, false},
		} {
			var ip netip.Addr
			if c.ip != "" {
				ip = netip.MustParseAddr(c.ip)
			}
			if got, err := n.host.Listens(c.protocol, ip, c.port); got != c.want || err != nil {
				t.Errorf("protocol %d at %q port %d: %v, %v; want %v", c.protocol, c.ip, c.port, got, err, c.want)
			}
		}
		return nil
	})
}
