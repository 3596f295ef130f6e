// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/rtnl"
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
func (h *Host) Listens(protocol uint8, ip netip.Addr, port uint16) (found bool, err error) {
	err = h.eachListener(protocol, func(socket *netlink.Socket) bool {
		found = socket.ID.SourcePort == port && receives(socket, ip)
		return !found
	})
	return found, err
}

// Listeners returns the addresses and ports at which sockets of the node's network namespace
// receive packets of TCP or UDP from every sender.
func (h *Host) Listeners(protocol uint8) (all []netip.AddrPort, err error) {
	err = h.eachListener(protocol, func(socket *netlink.Socket) bool {
		if ip, ok := netip.AddrFromSlice(socket.ID.Source); ok {
			all = append(all, netip.AddrPortFrom(ip.Unmap(), socket.ID.SourcePort))
		}
		return true
	})
	return all, err
}

// eachListener calls f with each socket that receives from every sender, until f returns false.
func (h *Host) eachListener(protocol uint8, f func(*netlink.Socket) bool) error {
	dump, state := h.netlink.SocketDiagTCP, uint8(stateListen)
	switch protocol {
	case unix.IPPROTO_TCP:
	case unix.IPPROTO_UDP:
		dump, state = h.netlink.SocketDiagUDP, stateClose
	default:
		return nil
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := rtnl.Complete(func() ([]*netlink.Socket, error) { return dump(family) })
		if err != nil {
			return fmt.Errorf("list sockets: %w", err)
		}
		for _, socket := range sockets {
			if socket.State == state && !f(socket) {
				return nil
			}
		}
	}
	return nil
}

// receives reports whether a socket's address equals ip, or one of the two means all
// addresses.
func receives(socket *netlink.Socket, ip netip.Addr) bool {
	own, ok := netip.AddrFromSlice(socket.ID.Source)
	return !ok || !ip.IsValid() || own.IsUnspecified() || own.Unmap() == ip
}
