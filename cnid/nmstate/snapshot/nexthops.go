// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// hopsOn returns the next hop objects on some devices, and the groups with one of them. The
// numbers of groups may be below those of their members.
func (i *Image) hopsOn(devices map[uint32]bool) map[uint32]bool {
	hops := map[uint32]bool{}
	for range 2 {
		for _, m := range i.NextHops {
			attributes := nextHops().attributes(m)
			is := devices[attributes.Value(nextHopOut)]
			for _, member := range membersOf(attributes.Get(nextHopSet)) {
				is = is || hops[member]
			}
			if is {
				hops[attributes.Value(nextHopID)] = true
			}
		}
	}
	return hops
}

// membersOf returns the next hops of a group (struct nexthop_grp).
func membersOf(group []byte) (ids []uint32) {
	const size = 8
	for ; len(group) >= size; group = group[size:] {
		ids = append(ids, binary.NativeEndian.Uint32(group))
	}
	return ids
}

// restoreNextHops adds the next hop objects that are missing, groups last. The kernel takes a
// member that is gone out of its groups. A number that has another object now belongs to the
// routing daemon that has replaced the object.
func (p *planner) restoreNextHops(before, now []Message) {
	c, have := nextHops(), canonical(nextHops(), now)
	byNumber := map[uint32]attribute.List{}
	for _, m := range now {
		byNumber[c.attributes(m).Value(nextHopID)] = c.attributes(m)
	}
	lost := filtered(before, func(m Message) bool {
		attributes := c.attributes(m)
		out, is := attributes.Value(nextHopOut), byNumber[attributes.Value(nextHopID)]
		return !have[c.canonical(m)] && (out == 0 || p.has(out)) && (is == nil || isPart(is, attributes))
	})
	slices.SortStableFunc(lost, func(a, b Message) int {
		return cmp.Compare(len(c.attributes(a).Get(nextHopSet)), len(c.attributes(b).Get(nextHopSet)))
	})
	for _, m := range lost {
		what := fmt.Sprintf("add the next hop %d", c.attributes(m).Value(nextHopID))
		p.request(Request{What: what, Kind: c.add, Flags: c.create, Body: hopToAdd(m)})
	}
}

// isPart reports whether a group has no members but those of another one.
func isPart(group, of attribute.List) bool {
	members, all := membersOf(group.Get(nextHopSet)), membersOf(of.Get(nextHopSet))
	return len(members) > 0 && len(members) < len(all) &&
		!slices.ContainsFunc(members, func(id uint32) bool { return !slices.Contains(all, id) })
}

// hopToAdd returns a next hop object as a request has it: the kernel computes the scope, and
// the time since when a group is not balanced.
func hopToAdd(m Message) Message {
	c := nextHops()
	out := slices.Clone(m[:c.header])
	c.settle(out)
	out[1] = 0
	attributes := c.attributes(m)
	out = append(out, ordered(attributes, append(c.volatile(attributes), nextHopBuckets))...)
	if buckets := attributes.Get(nextHopBuckets); buckets != nil {
		out = appendAttribute(out, nextHopBuckets|unix.NLA_F_NESTED, ordered(buckets, []uint16{unbalanced, pad}))
	}
	return out
}

// pad is NHA_RES_GROUP_PAD.
const pad = 0
