// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// overlapsNone compares the pools of a network with the pools of the networks on its segment
// that precede it. Pools without a common address are parts of one subnet. Equal ranges with equal
// pools are shared on purpose, because the claim of an address counts in all networks of the
// segment. In each other case the network that precedes keeps the addresses.
func overlapsNone(tx store.ReadTx, net *multinet.Network) *verdict.Verdict {
	if net.Segment() == "" {
		return nil // its plugin decides about the wire
	}
	for _, other := range multinet.OnSegment(tx, net.Segment()) {
		if !precedes(other, net) || !serves(tx, other) {
			continue
		}
		for _, mine := range net.Ranges() {
			for _, theirs := range other.Ranges() {
				if mine.HasPool() && theirs.HasPool() && common(mine.Pool, theirs.Pool) &&
					(mine != theirs || !mayShare(net, other)) {
					return refuse(
						v1alpha1.OverlapReason,
						fmt.Sprintf("pool %s-%s overlaps that of %s, which precedes on the same segment: %s",
							mine.Pool.First, mine.Pool.Last, nameFor(tx, net, other), remedy(net, other)),
					)
				}
			}
		}
	}
	return nil
}

// serves reports whether a network on a segment counts. A network does not count if an older
// namesake keeps it from ever having addresses, or if it has another fault of its own.
func serves(tx store.ReadTx, net *multinet.Network) bool {
	if net.Invalid != "" {
		return false
	}
	serving := multinet.Find(tx, net.Kind, net.Namespace, net.Name)
	return serving != nil && serving.UID == net.UID
}

// mayShare reports whether two networks may share a pool. Administrators set the segment of
// a DanmNet or ClusterNetwork. A TenantNetwork gets its segment from a TenantConfig, so it
// may not consume the addresses of another namespace, or of an administrator.
func mayShare(a, b *multinet.Network) bool {
	if a.Kind != multinet.KindTenantNetwork && b.Kind != multinet.KindTenantNetwork {
		return true
	}
	return a.Kind == b.Kind && a.Namespace == b.Namespace
}

func remedy(a, b *multinet.Network) string {
	if mayShare(a, b) {
		return "use the same range and pool in both, or pools without a common address"
	}
	return "use other addresses"
}

// common reports whether two ranges have an address in common.
func common(a, b store.AddrRange) bool {
	return a.First.Is4() == b.First.Is4() && !a.Last.Less(b.First) && !b.Last.Less(a.First)
}
