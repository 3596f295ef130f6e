// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/store"
)

// ring is a range of addresses in a domain, which are assigned in turn.
type ring struct {
	// domain is the name of a VPC, or the domain of a network outside of every VPC.
	domain string
	whole  store.AddrRange
	// blocked are the addresses that may not be assigned, ascending.
	blocked []store.AddrRange
	// cursor is the last chosen address, or not valid.
	cursor netip.Addr
}

// ringOf returns the ring of one prefix of a subnet.
func ringOf(tx store.ReadTx, subnet *store.Subnet, prefix netip.Prefix) ring {
	return ring{
		domain: subnet.VPC, whole: rangeOf(prefix), blocked: blocked(prefix, reservesOf(subnet)),
		cursor: store.Cursor(tx, subnet, ipfamily.Of(prefix.Addr())),
	}
}

// free yields the addresses that are neither blocked nor held, in ring order: from
// behind the cursor to the end, then from the start up to the cursor.
func (r ring) free(tx store.ReadTx) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for _, part := range ringParts(r.whole, r.cursor) {
			if !freeWithin(tx, r.domain, part, r.blocked, yield) {
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

// freeWithin walks the part and the domain's held addresses side by side, and
// returns false once yield does. A blocked range costs one step.
func freeWithin(
	tx store.ReadTx,
	domain string,
	part store.AddrRange,
	barred []store.AddrRange,
	yield func(netip.Addr) bool,
) bool {
	next, stop := iter.Pull(store.AddressesFrom(tx, domain, part.First))
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
	i, exact := slices.BinarySearchFunc(
		ranges,
		ip,
		func(r store.AddrRange, ip netip.Addr) int { return r.First.Compare(ip) },
	)
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
	// rankShared: another VPC uses the IP on the same node, so only one of the two pods can have
	// network probes.
	rankShared
	rankBest
)

// pick chooses a free address of the ring, or none. The number of addresses that it examines is
// limited: by the addresses that are resting, excluded, in use on the node, reserved, or held by
// other networks of the segment.
func (r ring) pick(tx store.ReadTx, req *Request) (netip.Addr, bool) {
	return req.best(tx, r.domain, r.free(tx))
}

// best chooses one of some free addresses of a domain, or none.
func (req *Request) best(tx store.ReadTx, domain string, free iter.Seq[netip.Addr]) (netip.Addr, bool) {
	var best netip.Addr
	found := rankNone
	for ip := range free {
		if _, excluded := req.Exclude[ip]; excluded || heldByPeer(tx, req, ip) != nil ||
			reservedForOthers(tx, req, ip) != nil {
			continue
		}
		if now := req.rank(tx, domain, ip); now > found {
			best, found = ip, now
		}
		if found == rankBest {
			break
		}
	}
	return best, found != rankNone
}

func (req *Request) rank(tx store.ReadTx, domain string, ip netip.Addr) rank {
	if req.rests(domain, ip) {
		return rankResting
	}
	if req.Node == "" || req.Network != nil {
		return rankBest // no other VPC uses it there, or the kubelet does not probe it
	}
	for _, other := range store.AddressesByNodeIP(tx, req.Node, ip) {
		if other.VPC != "" && other.VPC != domain {
			return rankShared
		}
	}
	return rankBest
}

// rests reports whether an address of a domain rests. Networks of one segment share one wire, so
// peers have state of an address from any of them.
func (req *Request) rests(domain string, ip netip.Addr) bool {
	if req.Resting.Contains(domain, ip, req.Now) {
		return true
	}
	return req.Network != nil && slices.ContainsFunc(req.Network.Peers, func(peer string) bool {
		return req.Resting.Contains(peer, ip, req.Now)
	})
}
