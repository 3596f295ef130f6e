// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
)

// plan divides the addresses that an attachment holds already.
type plan struct {
	// keep is the set to keep, complete, IPv4 first. Rows without a UID are
	// not in the API yet. It is empty if no set is kept.
	keep []*store.Address
	// drop lists the addresses of other sets.
	drop []*store.Address
}

// blocked reports whether addresses have to be dropped before others are chosen.
func blocked(plans []plan) bool {
	return slices.ContainsFunc(plans, func(p plan) bool { return len(p.keep) == 0 && len(p.drop) > 0 })
}

// set is the addresses of one choice: all rows that name the same IPs.
type set struct {
	members []*store.Address
	// confirmed is how many of the members are in the API.
	confirmed int
}

// decide plans for the addresses of a holder's attachment. A creation with a lost
// reply, or a crash, leaves an incomplete set, or two sets. The set with the preferred
// IPs, else the one with the most confirmed members, is kept and completed unless
// another holder has one of its IPs. Other sets, and addresses of another VPC or network than
// the requested one, or for another CNI plugin than the requested one, are dropped. If there
// are preferred IPs, the sets without them are dropped first, because an address of such a set
// may have an IP of the preferred set.
func decide(tx store.ReadTx, request ipam.Request, prefer []netip.Addr) plan {
	var p plan
	var candidates []set
	sets := setsOf(tx, request)
	if p.drop = unwanted(sets, request.Domain(), prefer); len(p.drop) > 0 {
		return p
	}
	for _, found := range sets {
		whole, ok := complete(tx, found)
		ok = ok && found.members[0].Domain() == request.Domain() && found.members[0].External == request.External
		if !ok {
			p.drop = append(p.drop, found.members...)
			continue
		}
		candidates = append(candidates, whole)
	}
	slices.SortStableFunc(candidates, func(a, b set) int {
		return cmp.Or(
			-cmp.Compare(a.confirmed, b.confirmed),
			cmp.Compare(a.members[0].Name, b.members[0].Name))
	})
	for i, candidate := range candidates {
		if i == 0 {
			p.keep = candidate.members
			continue
		}
		p.drop = append(p.drop, known(tx, candidate.members)...)
	}
	return p
}

// unwanted lists the members of the sets that are not the preferred one, if any is.
func unwanted(sets []set, domain string, prefer []netip.Addr) (rows []*store.Address) {
	if len(prefer) == 0 {
		return nil
	}
	for _, s := range sets {
		if s.members[0].Domain() != domain || !slices.Equal(s.members[0].Set, prefer) {
			rows = append(rows, s.members...)
		}
	}
	return rows
}

// setsOf groups the rows of an attachment by the set that they name.
func setsOf(tx store.ReadTx, request ipam.Request) []set {
	var sets []set
	for _, row := range store.AddressesOf(tx, request.Holder, request.Node) {
		if row.Attachment != request.Attachment {
			continue
		}
		i := slices.IndexFunc(sets, func(s set) bool {
			return s.members[0].Domain() == row.Domain() && slices.Equal(s.members[0].Set, row.Set)
		})
		if i < 0 {
			sets = append(sets, set{})
			i = len(sets) - 1
		}
		sets[i].members = append(sets[i].members, row)
		if row.UID != "" {
			sets[i].confirmed++
		}
	}
	return sets
}

// complete adds the rows that a set lacks. It returns false if another holder has one
// of the IPs.
func complete(tx store.ReadTx, s set) (set, bool) {
	whole := set{confirmed: s.confirmed}
	for _, ip := range s.members[0].Set {
		if i := slices.IndexFunc(s.members, func(row *store.Address) bool { return row.IP == ip }); i >= 0 {
			whole.members = append(whole.members, s.members[i])
			continue
		}
		if store.AddressByIP(tx, s.members[0].Domain(), ip) != nil {
			return set{}, false
		}
		lacking := *s.members[0]
		lacking.Meta, lacking.Kept = store.Meta{}, false
		lacking.IP, lacking.Name = ip, v1alpha1.AddressName(lacking.Domain(), ip)
		whole.members = append(whole.members, &lacking)
	}
	return whole, true
}

// known omits the rows that complete added.
func known(tx store.ReadTx, rows []*store.Address) []*store.Address {
	return slices.DeleteFunc(slices.Clone(rows), func(row *store.Address) bool {
		return store.GetAddress(tx, row.Name) != row
	})
}
