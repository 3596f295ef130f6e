// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"math/big"
	"net/netip"

	"github.com/alioth-net/alioth/store"
)

// maxCount bounds the figures of a status to the numbers that JSON carries without loss.
const maxCount = 1 << 53

// Free returns how many addresses of a subnet can still be held, in the family with the fewest,
// from 0 to 2^53. Resting addresses count as free.
func Free(tx store.ReadTx, subnet *store.Subnet) int64 {
	least := big.NewInt(maxCount)
	for _, prefix := range subnet.Prefixes {
		if n := freeOf(tx, subnet, prefix); n.Cmp(least) < 0 {
			least = n
		}
	}
	if least.Sign() < 0 || len(subnet.Prefixes) == 0 {
		return 0
	}
	return least.Int64()
}

// freeOf counts the addresses of one prefix that are neither blocked nor held. Of the addresses in
// blocked ranges it visits only the held ones.
func freeOf(tx store.ReadTx, subnet *store.Subnet, prefix netip.Prefix) *big.Int {
	n := size(rangeOf(prefix))
	v4, v6 := store.CountAddressesBySubnet(tx, subnet.Name)
	if prefix.Addr().Is4() {
		n.Sub(n, big.NewInt(v4))
	} else {
		n.Sub(n, big.NewInt(v6))
	}
	for _, r := range blocked(prefix, reservesOf(subnet)) {
		n.Sub(n, size(r))
		// An address may have been assigned before it was reserved.
		n.Add(n, big.NewInt(heldWithin(tx, subnet, r)))
	}
	return n
}

func heldWithin(tx store.ReadTx, subnet *store.Subnet, r store.AddrRange) int64 {
	var n int64
	for row := range store.AddressesFrom(tx, subnet.VPC, r.First) {
		if r.Last.Less(row.IP) {
			break
		}
		if row.Subnet == subnet.Name && !row.IsHeldBack() {
			n++
		}
	}
	return n
}

func size(r store.AddrRange) *big.Int {
	first, last := new(big.Int).SetBytes(r.First.AsSlice()), new(big.Int).SetBytes(r.Last.AsSlice())
	return last.Add(last.Sub(last, first), big.NewInt(1))
}
