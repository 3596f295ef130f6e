// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Groups is in the multicast groups in which neighbours look for addresses over IPv6.
// The kernel tells switches that listen to such reports (RFC 3810) to send these groups
// here, answers their queries, and has the device accept them. It ends with the
// process. The zero value is in none.
type Groups struct {
	// sockets keep the memberships; each has one, as what one socket may keep is little.
	sockets map[membership]int
}

// membership is that in a group on the network of a device.
type membership struct {
	ifindex int
	group   [16]byte
}

// Join is in the groups of these addresses on the network of a device, and in no others
// any more. IPv4 needs none: ARP is broadcast.
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

// solicitedNode is the group in which neighbours ask for an address (RFC 4291 section
// 2.7.1).
func solicitedNode(ip netip.Addr) [16]byte {
	group, own := netip.MustParseAddr("ff02::1:ff00:0").As16(), ip.As16()
	copy(group[13:], own[13:])
	return group
}
