// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store"
)

// reserves are the addresses that are reserved in a prefix, beside its own.
type reserves struct {
	gateways []netip.Addr
	ranges   []store.AddrRange
}

func reservesOf(subnet *store.Subnet) reserves {
	return reserves{gateways: subnet.Gateways, ranges: subnet.Reserved}
}

// blocked returns the addresses of a prefix that may not be assigned, as ranges in
// ascending order that don't touch each other.
func blocked(prefix netip.Prefix, res reserves) []store.AddrRange {
	whole := rangeOf(prefix)
	// The first address is the network's in IPv4 and the subnet-router
	// anycast address in IPv6 (RFC 4291, 2.6.1).
	ranges := []store.AddrRange{single(whole.First)}
	if prefix.Addr().Is4() {
		ranges = append(ranges, single(whole.Last)) // broadcast
	}
	for _, gateway := range res.gateways {
		if prefix.Contains(gateway) {
			ranges = append(ranges, single(gateway))
		}
	}
	for _, reserved := range res.ranges {
		if part, ok := intersect(reserved, whole); ok {
			ranges = append(ranges, part)
		}
	}
	return join(ranges)
}

// join sorts ranges of one family and merges ranges that overlap or touch.
func join(ranges []store.AddrRange) []store.AddrRange {
	slices.SortFunc(ranges, func(a, b store.AddrRange) int { return a.First.Compare(b.First) })
	joined := ranges[:0]
	for _, r := range ranges {
		if n := len(joined); n > 0 && r.First.Compare(joined[n-1].Last.Next()) <= 0 {
			joined[n-1].Last = later(joined[n-1].Last, r.Last)
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

func later(a, b netip.Addr) netip.Addr {
	if a.Less(b) {
		return b
	}
	return a
}

func intersect(a, b store.AddrRange) (store.AddrRange, bool) {
	if a.First.Is4() != b.First.Is4() {
		return store.AddrRange{}, false
	}
	both := store.AddrRange{First: later(a.First, b.First), Last: a.Last}
	if b.Last.Less(a.Last) {
		both.Last = b.Last
	}
	return both, !both.Last.Less(both.First)
}

func single(ip netip.Addr) store.AddrRange { return store.AddrRange{First: ip, Last: ip} }

func contains(r store.AddrRange, ip netip.Addr) bool {
	return !ip.Less(r.First) && !r.Last.Less(ip)
}

func rangeOf(prefix netip.Prefix) store.AddrRange {
	bytes := prefix.Masked().Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return store.AddrRange{First: prefix.Masked().Addr(), Last: last}
}

// Prefixes returns the prefixes that make up a range, ascending and as few as there
// can be.
func Prefixes(r store.AddrRange) []netip.Prefix {
	var all []netip.Prefix
	for first := r.First; ; {
		widest := netip.PrefixFrom(first, first.BitLen())
		for widest.Bits() > 0 {
			wider := netip.PrefixFrom(first, widest.Bits()-1)
			if wider.Masked().Addr() != first || r.Last.Less(rangeOf(wider).Last) {
				break
			}
			widest = wider
		}
		all = append(all, widest)
		last := rangeOf(widest).Last
		if !last.Less(r.Last) {
			return all
		}
		first = last.Next()
	}
}

// blockedBy explains why an address may not be assigned, "" for no reason.
func blockedBy(prefix netip.Prefix, res reserves, ip netip.Addr) string {
	whole := rangeOf(prefix)
	switch {
	case slices.Contains(res.gateways, ip):
		return "the gateway"
	case ip == whole.First && ip.Is4():
		return "the network address"
	case ip == whole.First:
		return "the subnet-router anycast address"
	case ip == whole.Last && ip.Is4():
		return "the broadcast address"
	}
	for _, reserved := range res.ranges {
		if contains(reserved, ip) {
			return "in the reserved range " + reserved.First.String() + "-" + reserved.Last.String()
		}
	}
	return ""
}
