// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Groups keeps memberships in the multicast groups that neighbours use to resolve IPv6
// addresses. The kernel reports the memberships to switches (RFC 3810), replies to their
// queries, and configures the device to accept the groups. The memberships end with the
// process. The zero value has none.
type Groups struct {
	// sockets have the memberships, one each, because the kernel limits the memberships
	// of a socket.
	sockets map[membership]int
}

// membership is the membership in a group on the network of a device.
type membership struct {
	ifindex int
	group   [16]byte
}

// Join joins the groups of these addresses on the network of a device, and leaves all
// others. IPv4 needs none: ARP is broadcast.
func (g *Groups) Join(ifindex int, ips []netip.Addr) error {
	wanted := map[membership]bool{}
	for _, ip := range ips {
		if ip.Is6() {
			wanted[membership{ifindex, solicitedNode(ip)}] = true
		}
	}
	var failures []error
	for m := range wanted {
		if _, joined := g.sockets[m]; !joined {
			failures = append(failures, g.join(m))
		}
	}
	for m, socket := range g.sockets {
		if !wanted[m] {
			unix.Close(socket)
			delete(g.sockets, m)
		}
	}
	return errors.Join(failures...)
}

func (g *Groups) join(m membership) error {
	socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	request := &unix.IPv6Mreq{Multiaddr: m.group, Interface: uint32(m.ifindex)}
	if err := unix.SetsockoptIPv6Mreq(socket, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, request); err != nil {
		unix.Close(socket)
		return fmt.Errorf("join %s: %w", netip.AddrFrom16(m.group), err)
	}
	if g.sockets == nil {
		g.sockets = map[membership]int{}
	}
	g.sockets[m] = socket
	return nil
}

// solicitedNode is the group that receives neighbour solicitations for an address (RFC
// 4291 section 2.7.1).
func solicitedNode(ip netip.Addr) [16]byte {
	group, own := netip.MustParseAddr("ff02::1:ff00:0").As16(), ip.As16()
	copy(group[13:], own[13:])
	return group
}
