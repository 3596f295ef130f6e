// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loopback serves the node IPAM API at TCP ports of loopback, to processes of the
// node and to no pod's. The guards of package ebpf/datapath refuse most pods at their connect;
// this package asks for the cgroup of each client that has connected, and decides.
package loopback

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// localhost is the name for the loopback addresses of both families.
const localhost = "localhost"

// Places are the listening places of a Server.
type Places struct {
	Addrs []netip.Addr
	Port  uint16
	// either reports that one family is enough.
	either bool
}

// Parse reads host:port, where host is localhost or a loopback address. "" returns no places.
func Parse(text string) (Places, error) {
	if text == "" {
		return Places{}, nil
	}
	host, service, err := net.SplitHostPort(text)
	if err != nil {
		return Places{}, fmt.Errorf("want an address and a port, for example localhost:10090: %w", err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return Places{}, fmt.Errorf("want a port from 1 to 65535, got %q", service)
	}
	if host == localhost {
		return Places{
			Addrs:  []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()},
			Port:   uint16(port),
			either: true,
		}, nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Unmap().IsLoopback() {
		return Places{}, fmt.Errorf(
			"want localhost or a loopback address, because other machines and pods reach all others, got %q",
			host,
		)
	}
	return Places{Addrs: []netip.Addr{ip.Unmap()}, Port: uint16(port)}, nil
}

// missing reports whether a listener has failed because the node lacks a family that it may
// lack.
func (p Places) missing(err error) bool {
	return p.either && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT))
}
