// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"math"
	"net/netip"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/sound"
)

// Addrs parses addresses.
func Addrs(texts []string) ([]netip.Addr, error) {
	addrs := make([]netip.Addr, 0, len(texts))
	for _, text := range texts {
		addr, err := Addr(text)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// Addr parses an address.
func Addr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s is no IPv4 or IPv6 address", quote.Text(text))
	}
	return addr.Unmap(), nil
}

// HostAddrs parses the texts that are addresses of one host, and leaves out all others.
func HostAddrs(texts []string) []netip.Addr {
	var addrs []netip.Addr
	for _, text := range texts {
		if addr, ok := HostAddr(text); ok {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// HostAddr parses a text that is an address of one host.
func HostAddr(text string) (addr netip.Addr, ok bool) {
	addr, err := netip.ParseAddr(text)
	addr = addr.Unmap()
	return addr, err == nil && sound.IsHost(addr)
}

// Port returns the number of a port, 0 for a number that no port has.
func Port(number int32) uint16 {
	if number < 0 || number > math.MaxUint16 {
		return 0
	}
	return uint16(number)
}

// Prefixes parses ranges in CIDR notation, without their host bits.
func Prefixes(texts []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s is no range in CIDR notation", quote.Text(text))
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}
