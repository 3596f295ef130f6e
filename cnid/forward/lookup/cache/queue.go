// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import "slices"

// Limits of keys that wait to be asked for. perSource limits the keys that packets of one
// interface missed, perReview the keys of rows that are read again. A key that finds no room
// is not asked for: its packets go over a role, and the next packet, or the next review, may
// find room. The rows of a full VPC are all read again in time if each review finds room for
// perReview of them.
const (
	perSource, perReview = 16, 64
	// sourcesAtMost is above twice the number of interfaces that a node has.
	sourcesAtMost = 4096
)

// source is the origin of a waiting key: an interface of a VPC, and whether the key's row is
// read again. So the key of a packet never waits behind the keys of a review.
type source struct {
	vni     uint32
	ifindex int
	again   bool
}

func (s source) room() int {
	if s.again {
		return perReview
	}
	return perSource
}

// queue has the keys that wait. VPCs take turns, and so do the sources of a VPC: neither a
// VPC with many interfaces nor an interface with many keys holds up others.
type queue struct {
	waiting map[source][]Key
	// vpcs are the VNIs with keys, and turns their sources; the one whose turn is next first.
	vpcs  []uint32
	turns map[uint32][]source
}

func newQueue() queue { return queue{waiting: map[source][]Key{}, turns: map[uint32][]source{}} }

// add appends a key, and reports whether there was room.
func (q *queue) add(from source, key Key) bool {
	keys := q.waiting[from]
	if len(keys) >= from.room() || len(keys) == 0 && len(q.waiting) >= sourcesAtMost {
		return false
	}
	if len(keys) == 0 {
		if len(q.turns[from.vni]) == 0 {
			q.vpcs = append(q.vpcs, from.vni)
		}
		q.turns[from.vni] = append(q.turns[from.vni], from)
	}
	q.waiting[from] = append(keys, key)
	return true
}

// take removes the next key of a VPC that may have one more question.
func (q *queue) take(may func(vni uint32) bool) (Key, bool) {
	at := slices.IndexFunc(q.vpcs, may)
	if at < 0 {
		return Key{}, false
	}
	vni := q.vpcs[at]
	q.vpcs = slices.Delete(q.vpcs, at, at+1)
	from := q.turns[vni][0]
	turns, keys := q.turns[vni][1:], q.waiting[from]
	if len(keys) > 1 {
		q.waiting[from], turns = keys[1:], append(turns, from)
	} else {
		delete(q.waiting, from)
	}
	if len(turns) > 0 {
		q.turns[vni], q.vpcs = turns, append(q.vpcs, vni)
	} else {
		delete(q.turns, vni)
	}
	return keys[0], true
}
