// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store"
)

// free yields the addresses of a prefix that are neither blocked nor held, in
// ring order: from behind the cursor to the end, then from the start up to the
// cursor.
func free(tx store.ReadTx, subnet *store.Subnet, prefix netip.Prefix) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		barred := blocked(subnet, prefix)
		for _, part := range ringParts(rangeOf(prefix), store.Cursor(tx, subnet, prefix.Addr().Is4())) {
			if !freeWithin(tx, subnet.VPC, part, barred, yield) {
				return
			}
		}
	}
}

// ringParts splits a range behind the cursor and swaps the parts.
func ringParts(whole store.AddrRange, cursor netip.Addr) []store.AddrRange {
	if !cursor.IsValid() || !contains(whole, cursor) || cursor == whole.Last {
		return []store.AddrRange{whole}
	}
	return []store.AddrRange{
		{First: cursor.Next(), Last: whole.Last},
		{First: whole.First, Last: cursor},
	}
}

// freeWithin walks the part and the VPC's held addresses side by side, and
// returns false once yield does. A blocked range costs one step.
func freeWithin(tx store.ReadTx, vpc string, part store.AddrRange, barred []store.AddrRange, yield func(netip.Addr) bool) bool {
	next, stop := iter.Pull(store.AddressesByVPCFrom(tx, vpc, part.First))
	defer stop()
	held, more := next()
	for ip := part.First; ip.IsValid() && !part.Last.Less(ip); ip = ip.Next() {
		for more && held.IP.Less(ip) {
			held, more = next()
		}
		if r, ok := covering(barred, ip); ok {
			ip = r.Last
			continue
		}
		if more && held.IP == ip {
			continue
		}
		if !yield(ip) {
			return false
		}
	}
	return true
}

// covering finds the range that contains an address, among ascending ones.
func covering(ranges []store.AddrRange, ip netip.Addr) (store.AddrRange, bool) {
	i, exact := slices.BinarySearchFunc(ranges, ip, func(r store.AddrRange, ip netip.Addr) int { return r.First.Compare(ip) })
	if exact {
		return ranges[i], true
	}
	if i > 0 && contains(ranges[i-1], ip) {
		return ranges[i-1], true
	}
	return store.AddrRange{}, false
}

// rank orders free addresses: the highest is taken.
type rank int

const (
	rankNone rank = iota
	// rankResting: released a short while ago.
	rankResting
	// rankShared: another VPC uses the IP on the same node, so one of the two pods
	// can't have network probes.
	rankShared
	rankBest
)

// pick chooses a free address of the prefix, or none. The number of addresses that it
// examines is limited by those that are resting, excluded, or in use on the node.
func pick(tx store.ReadTx, subnet *store.Subnet, prefix netip.Prefix, req *Request) (netip.Addr, bool) {
	var best netip.Addr
	found := rankNone
	if freeOf(tx, subnet, prefix).Sign() <= 0 {
		return best, false
	}
	for ip := range free(tx, subnet, prefix) {
		if _, excluded := req.Exclude[ip]; excluded {
			continue
		}
		if r := req.rank(tx, subnet.VPC, ip); r > found {
			best, found = ip, r
		}
		if found == rankBest {
			break
		}
	}
	return best, found != rankNone
}

func (req *Request) rank(tx store.ReadTx, vpc string, ip netip.Addr) rank {
	if req.Resting.Contains(vpc, ip, req.Now) {
		return rankResting
	}
	if req.Node == "" {
		return rankBest // no other VPC uses it there
	}
	for _, other := range store.AddressesByNodeIP(tx, req.Node, ip) {
		if other.VPC != vpc {
			return rankShared
		}
	}
	return rankBest
}
