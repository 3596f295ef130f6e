// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import "net/netip"

// Addrs parses addresses.
func Addrs(texts []string) ([]netip.Addr, error) {
	addrs := make([]netip.Addr, 0, len(texts))
	for _, text := range texts {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr.Unmap())
	}
	return addrs, nil
}

// ReadableAddrs parses what is an address and leaves out what isn't.
func ReadableAddrs(texts []string) []netip.Addr {
	var addrs []netip.Addr
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}

// Prefixes parses ranges in CIDR notation, without their host bits.
func Prefixes(texts []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}

// LastOf returns the highest address of a prefix.
func LastOf(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}
