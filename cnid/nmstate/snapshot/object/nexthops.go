// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// MembersOf returns the next hops of a group (struct nexthop_grp).
func MembersOf(group []byte) (ids []uint32) {
	const size = 8
	for ; len(group) >= size; group = group[size:] {
		ids = append(ids, binary.NativeEndian.Uint32(group))
	}
	return ids
}

// IsPart reports whether all members of a group are members of a second group too.
func IsPart(group, of attribute.List) bool {
	members, all := MembersOf(group.Get(NextHopSet)), MembersOf(of.Get(NextHopSet))
	return len(members) > 0 && len(members) < len(all) &&
		!slices.ContainsFunc(members, func(id uint32) bool { return !slices.Contains(all, id) })
}

// HopToAdd returns a next hop object as a request has it: the kernel computes the scope, and
// the time since when a group is not balanced.
func HopToAdd(m Message) Message {
	c := NextHops()
	out := slices.Clone(m[:c.Header])
	c.Settle(out)
	out[1] = 0
	attributes := c.Attributes(m)
	out = append(out, ordered(attributes, append(c.Volatile(attributes), nextHopBuckets))...)
	if buckets := attributes.Get(nextHopBuckets); buckets != nil {
		out = AppendAttribute(out, nextHopBuckets|unix.NLA_F_NESTED, ordered(buckets, []uint16{unbalanced, pad}))
	}
	return out
}

// pad is NHA_RES_GROUP_PAD.
const pad = 0

// NumberOfHop returns the number of a next hop object, as bytes.
func NumberOfHop(m Message) string { return string(NextHops().Attributes(m).Get(NextHopID)) }
