// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/netlinkdump"
)

// States of a socket that receives from every sender, from linux/net/tcp_states.h: an
// unconnected UDP socket is in the state close.
const (
	stateClose  = 7
	stateListen = 10
)

// Listens reports whether a socket of the node's network namespace receives packets to a
// port of TCP or UDP at an address, or with the zero value at any address. A socket for
// all addresses of IPv6 counts as one for IPv4 too. Sockets of other protocols are not
// detected.
func (h *Host) Listens(protocol uint8, ip netip.Addr, port uint16) (bool, error) {
	dump, state := h.netlink.SocketDiagTCP, uint8(stateListen)
	switch protocol {
	case unix.IPPROTO_TCP:
	case unix.IPPROTO_UDP:
		dump, state = h.netlink.SocketDiagUDP, stateClose
	default:
		return false, nil
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := netlinkdump.Complete(func() ([]*netlink.Socket, error) { return dump(family) })
		if err != nil {
			return false, fmt.Errorf("list sockets: %w", err)
		}
		for _, socket := range sockets {
			if socket.State == state && socket.ID.SourcePort == port && receives(socket, ip) {
				return true, nil
			}
		}
	}
	return false, nil
}

// receives reports whether a socket's address equals ip, or one of the two means all
// addresses.
func receives(socket *netlink.Socket, ip netip.Addr) bool {
	own, ok := netip.AddrFromSlice(socket.ID.Source)
	return !ok || !ip.IsValid() || own.IsUnspecified() || own.Unmap() == ip
}
