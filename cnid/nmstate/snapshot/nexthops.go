// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// hopsOn returns the next hop objects on some devices, and the groups with one of them. The
// numbers of groups may be below the numbers of their members.
func (i *Image) hopsOn(devices map[uint32]bool) map[uint32]bool {
	hops := map[uint32]bool{}
	for range 2 {
		for _, m := range i.NextHops {
			attributes := object.NextHops().Attributes(m)
			is := devices[attributes.Value(object.NextHopOut)]
			for _, member := range object.MembersOf(attributes.Get(object.NextHopSet)) {
				is = is || hops[member]
			}
			if is {
				hops[attributes.Value(object.NextHopID)] = true
			}
		}
	}
	return hops
}

// restoreNextHops adds the next hop objects that are missing, groups last. The kernel takes a
// member that is gone out of its groups. A number that has another object now belongs to the
// routing daemon that has replaced the object.
func (p *planner) restoreNextHops(before, now []Message) {
	c, have := object.NextHops(), canonical(object.NextHops(), now)
	byNumber := map[uint32]attribute.List{}
	for _, m := range now {
		byNumber[c.Attributes(m).Value(object.NextHopID)] = c.Attributes(m)
	}
	lost := filtered(before, func(m Message) bool {
		attributes := c.Attributes(m)
		out, is := attributes.Value(object.NextHopOut), byNumber[attributes.Value(object.NextHopID)]
		return !have[c.Canonical(m)] && (out == 0 || p.has(out)) && (is == nil || object.IsPart(is, attributes))
	})
	slices.SortStableFunc(lost, func(a, b Message) int {
		return cmp.Compare(len(c.Attributes(a).Get(object.NextHopSet)), len(c.Attributes(b).Get(object.NextHopSet)))
	})
	for _, m := range lost {
		what := fmt.Sprintf("add the next hop %d", c.Attributes(m).Value(object.NextHopID))
		p.request(Request{What: what, Kind: c.Add, Flags: c.Create, Body: object.HopToAdd(m)})
	}
}
