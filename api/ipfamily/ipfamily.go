// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipfamily has the type for "IPv4 or IPv6", which all layers share.
package ipfamily

import (
	"net/netip"
	"strconv"
)

// Family is a version of the Internet Protocol. Its value is the number of the version.
type Family uint8

const (
	// IPv4 is RFC 791.
	IPv4 Family = 4
	// IPv6 is RFC 8200.
	IPv6 Family = 6
)

// Both has all families, IPv4 first.
var Both = [2]Family{IPv4, IPv6}

// Of returns the family of an address. An IPv4-mapped address is one of IPv6.
func Of(ip netip.Addr) Family {
	if ip.Is4() {
		return IPv4
	}
	return IPv6
}

// String returns "IPv4" or "IPv6".
func (f Family) String() string { return "IPv" + strconv.Itoa(int(f)) }

// Has reports whether an address is of the family.
func (f Family) Has(ip netip.Addr) bool { return Of(ip) == f }

// Index returns the place in an array with one element for each family: 0 for IPv4, 1 for IPv6.
func (f Family) Index() int { return Pick(f, 0, 1) }

// Number returns AF_INET or AF_INET6 of Linux. NFPROTO_IPV4 and NFPROTO_IPV6 of netfilter have
// the same values.
func (f Family) Number() uint8 { return Pick[uint8](f, 2, 10) }

// Bits returns the length of an address in bits.
func (f Family) Bits() int { return Pick(f, 32, 128) }

// Unspecified returns 0.0.0.0 or ::.
func (f Family) Unspecified() netip.Addr {
	return Pick(f, netip.IPv4Unspecified(), netip.IPv6Unspecified())
}

// All returns the range of all addresses: 0.0.0.0/0 or ::/0.
func (f Family) All() netip.Prefix { return netip.PrefixFrom(f.Unspecified(), 0) }

// Pick returns the value of the family out of one for each.
func Pick[T any](f Family, four, six T) T {
	if f == IPv4 {
		return four
	}
	return six
}
