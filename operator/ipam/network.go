// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"math/big"
	"net"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// NetworkRange is a network outside of every VPC, as a source of addresses.
type NetworkRange struct {
	store.NetworkRef
	// V4 and V6 have the addresses of each family.
	V4, V6 Range
	// Reserved are the gateways of the network's routes, which no pod gets.
	Reserved []netip.Addr
	// Peers are the domains of the other networks of the segment. An IP that is held in
	// one of them is refused here, because both are on one wire.
	Peers []string
	// SharedMAC: interfaces have the MAC of the device on their node, so that an attachment has
	// none of its own. Interface identifiers follow from NetworkMAC all the same, because
	// identifiers from the device's MAC would be equal.
	SharedMAC bool
	// of is the row that RangeOf read. It is nil for the range of an allocation status,
	// whose network may be gone.
	of *multinet.Network
}

// RangeOf returns a network as a source of addresses. Choose reads the network again, because it
// may be deleted or have other peers by then.
func RangeOf(tx store.ReadTx, net *multinet.Network) *NetworkRange {
	n := &NetworkRange{
		NetworkRef: net.Reference(),
		V4:         Range{Prefix: net.V4.Prefix, Pool: net.V4.Pool, EUI64: net.V4.EUI64},
		V6:         Range{Prefix: net.V6.Prefix, Pool: net.V6.Pool, EUI64: net.V6.EUI64},
		SharedMAC:  net.Type == multinet.TypeIPVLAN,
		of:         net,
	}
	for _, route := range net.Routes {
		n.Reserved = append(n.Reserved, route.Gateway)
	}
	if segment := net.Segment(); segment != "" {
		for _, peer := range multinet.OnSegment(tx, segment) {
			if peer.UID != net.UID {
				n.Peers = append(n.Peers, peer.Domain())
			}
		}
	}
	return n
}

// Renewed returns the network as it is now, with its present peers. It returns an *Error if pods
// may not use it any more, or if its specification or profile differs from the one that RangeOf
// read. An attachment that was decided by it may lead elsewhere by now.
func (n *NetworkRange) Renewed(tx store.ReadTx) (*NetworkRange, error) {
	if n.of == nil {
		return n, nil
	}
	now := multinet.ByDomain(tx, n.Domain())
	if now == nil || !now.Usable() || now.Generation != n.of.Generation || !now.SameWire(n.of) {
		return nil, refuse(v1alpha1.NetworkNotReadyReason, WhenSubnetsChange,
			"%s has just changed, or is being deleted: waiting until it is ready", n)
	}
	return RangeOf(tx, now), nil
}

// Range has the addresses of one family of a network. The zero value is empty.
type Range struct {
	Prefix netip.Prefix
	// Pool has the addresses to choose from, both ends included. The zero value means the whole
	// prefix.
	Pool store.AddrRange
	// EUI64: the interface identifier follows from the MAC, and Pool is the zero value.
	// An IPv6 prefix of more than 64 bits has no room for it, and is a pool as a whole.
	EUI64 bool
}

const (
	// clusterNetwork is the kind of networks that take literal addresses from the pool
	// only: tenants write the requests, the cluster's operator the pool.
	clusterNetwork = "ClusterNetwork"
	// maxAttempts limits how many MACs are tried for one address. With 40 bits of a hash
	// even the first one is rarely taken.
	maxAttempts = 64
)

// Bits returns the prefix length of an address of the network.
func (n *NetworkRange) Bits(ip netip.Addr) int { return n.family(ipfamily.Of(ip)).Prefix.Bits() }

// family returns the range of a family.
func (n *NetworkRange) family(family ipfamily.Family) Range { return ipfamily.Pick(family, n.V4, n.V6) }

// byMAC reports whether addresses follow from the MAC.
func (r Range) byMAC() bool { return r.EUI64 && r.Prefix.Bits() <= 64 }

// pool returns the addresses that are chosen.
func (r Range) pool() store.AddrRange {
	if r.Pool.First.IsValid() {
		return r.Pool
	}
	return rangeOf(r.Prefix)
}

func (n *NetworkRange) reserves() reserves { return reserves{gateways: n.Reserved} }

// chooseInNetwork finds an address for each family of the request: the requested one, or
// one of the network's pool. A network without a range of a family has no addresses of
// it.
func chooseInNetwork(tx store.ReadTx, req *Request) (Result, error) {
	result := Result{Network: req.Network.NetworkRef}
	mac := NetworkMAC(req.Holder.UID, req.Attachment, 0)
	for _, family := range ipfamily.Both {
		asked := slices.IndexFunc(req.IPs, family.Has)
		dynamic := req.Families.has(family)
		if asked < 0 && !dynamic {
			continue
		}
		r := req.Network.family(family)
		if !r.Prefix.IsValid() {
			return Result{}, withoutRange(req, family)
		}
		var ip netip.Addr
		var err error
		switch {
		case asked >= 0:
			ip = req.IPs[asked]
			err = availableInNetwork(tx, r, ip, req)
		case r.byMAC():
			ip, mac, err = chooseByMAC(tx, r.Prefix, req)
		default:
			ip, err = chooseInPool(tx, r, family, req)
			result.Cursors = append(result.Cursors, ip)
		}
		if err != nil {
			return Result{}, err
		}
		result.IPs = append(result.IPs, ip)
	}
	if !req.Network.SharedMAC {
		result.MAC = mac.String()
	}
	result.Rows = req.rows(result)
	return result, nil
}

// chooseInPool takes the next free address of the pool.
func chooseInPool(tx store.ReadTx, r Range, family ipfamily.Family, req *Request) (netip.Addr, error) {
	n := req.Network
	ring := ring{
		domain: n.Domain(), whole: r.pool(), blocked: blocked(r.Prefix, n.reserves()),
		cursor: store.NetworkCursor(tx, n.Domain(), family),
	}
	if ip, ok := ring.pick(tx, req); ok {
		return ip, nil
	}
	return netip.Addr{}, refuse(v1alpha1.NetworkExhaustedReason, WhenReleased,
		"%s has no free address left in its pool %s-%s: delete pods, enlarge the pool, or use another network",
		n, ring.whole.First, ring.whole.Last)
}

// chooseByMAC makes an address out of the MAC of the attachment, and another MAC if the
// address is taken.
func chooseByMAC(tx store.ReadTx, prefix netip.Prefix, req *Request) (netip.Addr, net.HardwareAddr, error) {
	for attempt := range maxAttempts {
		mac := NetworkMAC(req.Holder.UID, req.Attachment, attempt)
		ip := eui64(prefix, mac)
		if available(tx, ip, blockedBy(prefix, req.Network.reserves(), ip), "", req) == nil {
			return ip, mac, nil
		}
	}
	return netip.Addr{}, nil, refuse(
		v1alpha1.NetworkExhaustedReason,
		WhenReleased,
		"%s has no free address in %s for this pod: delete the pod, so that its successor gets another one",
		req.Network,
		prefix,
	)
}

// availableInNetwork refuses a requested IP that the network can't assign to the holder.
func availableInNetwork(tx store.ReadTx, r Range, ip netip.Addr, req *Request) error {
	n := req.Network
	if !r.Prefix.Contains(ip) {
		return refuse(v1alpha1.IPOutsideNetworkReason, WhenSubnetsChange,
			"%s is not in %s, the range of %s: use an address of that range, or \"dynamic\"", ip, r.Prefix.Masked(), n)
	}
	if n.Kind == clusterNetwork && !r.byMAC() && !contains(r.pool(), ip) {
		return refuse(
			v1alpha1.IPOutsidePoolReason,
			WhenSubnetsChange,
			"%s is not in %s-%s, the pool of %s: use an address of the pool, or \"dynamic\"",
			ip,
			r.pool().First,
			r.pool().Last,
			n,
		)
	}
	return available(tx, ip, blockedBy(r.Prefix, n.reserves(), ip), n.String(), req)
}

// heldByPeer returns the address with that IP in another network of the segment, or nil.
func heldByPeer(tx store.ReadTx, req *Request, ip netip.Addr) *store.Address {
	if req.Network == nil {
		return nil
	}
	for _, peer := range req.Network.Peers {
		if held := store.AddressByIP(tx, peer, ip); held != nil {
			return held
		}
	}
	return nil
}

func withoutRange(req *Request, family ipfamily.Family) *Error {
	field := ipfamily.Pick(family, "cidr", "net6")
	return refuse(
		v1alpha1.NoAddressRangeReason,
		WhenSubnetsChange,
		"%s has no %s addresses, because it has no %s: request none of that family, or use another network",
		req.Network,
		family,
		field,
	)
}

// CountNetwork returns how many addresses of a family a network can choose, and how many of
// those no network of the segment holds, each from 0 to 2^53. Where addresses follow from
// the MAC, both are 2^53. A family without a range has 0.
func CountNetwork(tx store.ReadTx, n *NetworkRange, family ipfamily.Family) (free, total int64) {
	r := n.family(family)
	if !r.Prefix.IsValid() {
		return 0, 0
	}
	if r.byMAC() {
		return maxCount, maxCount
	}
	pool := r.pool()
	all := size(pool)
	barred := blocked(r.Prefix, n.reserves())
	for _, b := range barred {
		if part, ok := intersect(b, pool); ok {
			all.Sub(all, size(part))
		}
	}
	left := new(big.Int).Sub(all, big.NewInt(heldOnSegment(tx, n, pool, barred)))
	return bounded(left), bounded(all)
}

// heldOnSegment counts the addresses of a pool, without barred ones, that a network or one
// of its peers holds. Two of them may hold one address, after a race of two operators.
func heldOnSegment(tx store.ReadTx, n *NetworkRange, pool store.AddrRange, barred []store.AddrRange) int64 {
	taken := map[netip.Addr]struct{}{}
	for _, domain := range append([]string{n.Domain()}, n.Peers...) {
		for row := range store.AddressesFrom(tx, domain, pool.First) {
			if pool.Last.Less(row.IP) {
				break
			}
			if _, ok := covering(barred, row.IP); !ok {
				taken[row.IP] = struct{}{}
			}
		}
	}
	return int64(len(taken))
}

func bounded(n *big.Int) int64 {
	if n.Cmp(big.NewInt(maxCount)) > 0 {
		return maxCount
	}
	return n.Int64()
}
