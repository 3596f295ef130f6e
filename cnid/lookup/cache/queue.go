// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import "slices"

// Limits of keys that wait to be asked for: of an interface, those that packets missed and
// those of rows that are read again. A key that finds no room is not asked for: its packets
// go over a role, and the next of them, or the next review, may find room. The rows of a
// full VPC are all read again in time if each review finds room for perReview of them.
const (
	perSource, perReview = 16, 64
	// sourcesAtMost is above twice the number of interfaces that a node has.
	sourcesAtMost = 4096
)

// source is the interface of a VPC for which a key is asked for, or asked for again. So a
// packet waits for no review.
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

// queue has the keys that wait, by source. The sources take turns, so that one with many
// keys holds up no other.
type queue struct {
	waiting map[source][]Key
	// turns are the sources with keys, the one whose turn is next first.
	turns []source
}

func newQueue() queue { return queue{waiting: map[source][]Key{}} }

// add appends a key, and reports whether there was room.
func (q *queue) add(from source, key Key) bool {
	keys := q.waiting[from]
	if len(keys) >= from.room() || len(keys) == 0 && len(q.turns) >= sourcesAtMost {
		return false
	}
	if len(keys) == 0 {
		q.turns = append(q.turns, from)
	}
	q.waiting[from] = append(keys, key)
	return true
}

// take removes the next key of a source for whose VPC another question may be asked.
func (q *queue) take(may func(vni uint32) bool) (key Key, ok bool) {
	at := slices.IndexFunc(q.turns, func(from source) bool { return may(from.vni) })
	if at < 0 {
		return Key{}, false
	}
	from := q.turns[at]
	q.turns = slices.Delete(q.turns, at, at+1)
	keys := q.waiting[from]
	if len(keys) == 1 {
		delete(q.waiting, from)
		return keys[0], true
	}
	q.waiting[from], q.turns = keys[1:], append(q.turns, from)
	return keys[0], true
}

// vnis yields the VNIs of waiting keys, some more than once.
func (q *queue) vnis(yield func(uint32) bool) {
	for _, from := range q.turns {
		if !yield(from.vni) {
			return
		}
	}
}
