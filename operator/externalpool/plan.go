// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package externalpool

import (
	"fmt"
	"net/netip"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/operator/vpc"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/services"
)

// decision is the planned status of one pool.
type decision struct {
	used int64
	verdict.Verdict
}

// decide plans for one pool.
func decide(tx store.ReadTx, pool *external.Pool, rules vpc.Rules) decision {
	d := decision{used: int64(len(external.AddressesByPool(tx, pool.Name)))}
	if pool.Deleting {
		d.Verdict = verdict.Deleting("it is being deleted")
		return d
	}
	if text := reserved(tx, pool, rules); text != "" {
		d.Verdict = verdict.Refuse(v1alpha1.RangeReservedReason, text)
		return d
	}
	if text := overlap(tx, pool); text != "" {
		d.Verdict = verdict.Refuse(v1alpha1.OverlapReason, text)
		return d
	}
	d.Verdict = verdict.Use("tenants that it allows may have its addresses")
	return d
}

// reserved returns the pool's addresses that the cluster needs, "" for none.
func reserved(tx store.ReadTx, pool *external.Pool, rules vpc.Rules) string {
	ranges := rules.Ranges(tx)
	for _, prefix := range external.Reserved() {
		ranges = append(ranges, vpc.ReservedRange{Prefix: prefix, What: "a range that hosts use by themselves"})
	}
	if row := store.GetVPC(tx, rules.DefaultVPC); row != nil {
		for _, prefix := range row.Prefixes {
			ranges = append(ranges, vpc.ReservedRange{Prefix: prefix, What: "the default VPC"})
		}
	}
	for _, r := range pool.Ranges {
		for _, other := range ranges {
			if overlaps(r, other.Prefix) {
				return fmt.Sprintf("%s overlaps %s (%s): use other addresses", text(r), other.What, other.Prefix)
			}
		}
	}
	if len(external.AddressesByPool(tx, pool.Name)) > 0 {
		return "" // a kubelet that reports an address of it must not end the pool
	}
	for _, node := range store.ListNodes(tx) {
		for _, ip := range node.AllAddresses {
			if services.Contains(pool, ip) {
				return fmt.Sprintf("it contains the address %s of node %s: leave that out", ip, node.Name)
			}
		}
	}
	return ""
}

// overlap returns the older pool that has some of the addresses, "" for none.
func overlap(tx store.ReadTx, pool *external.Pool) string {
	for _, other := range external.ListPools(tx) {
		if !other.Older(pool) {
			continue
		}
		for _, mine := range pool.Ranges {
			for _, theirs := range other.Ranges {
				if mine.First.Is4() == theirs.First.Is4() && !mine.Last.Less(theirs.First) && !theirs.Last.Less(mine.First) {
					return fmt.Sprintf("%s overlaps %s of ExternalPool %q, which is older", text(mine), text(theirs), other.Name)
				}
			}
		}
	}
	return ""
}

// overlaps reports whether a range and a prefix have an address in common.
func overlaps(r store.AddrRange, prefix netip.Prefix) bool {
	return prefix.Contains(r.First) || prefix.Contains(r.Last) ||
		r.First.Is4() == prefix.Addr().Is4() && !prefix.Masked().Addr().Less(r.First) && !r.Last.Less(prefix.Masked().Addr())
}

func text(r store.AddrRange) string {
	if r.First == r.Last {
		return r.First.String()
	}
	return r.First.String() + "-" + r.Last.String()
}
