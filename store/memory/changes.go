// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"
	"sync"
)

// Change is the effect of a commit on one row: Old is the row before, New the one after, both
// pointers to the type of a row such as *Address. An untyped nil stands for no row.
type Change struct {
	Old, New any
}

// ChangesSince lists the changes of the commits after the revision, up to the snapshot tx, in the
// order of the writes. It omits rows with only a new resource version. ok is false when the store
// has no changes from so long ago: the caller then has to read all rows again.
func ChangesSince(tx ReadTx, revision uint64) (list []Change, ok bool) {
	return tx.base().store.changes.since(revision, tx.Revision())
}

// rememberedChanges is the number of changes that a store remembers at least. Few readers are
// further behind, except at the start, when everything is new to them. Each change keeps two rows
// from being forgotten.
const rememberedChanges = 1024

// changeLog has the last changes, the oldest first. A snapshot is of one
// revision, and may be read while later commits go on.
type changeLog struct {
	mu      sync.Mutex
	entries []changeEntry
	// forgotten is the last revision whose changes are not all here.
	forgotten uint64
}

type changeEntry struct {
	revision uint64
	Change
}

// add is called before the commit that makes the revision visible.
func (l *changeLog) add(revision uint64, changes []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		l.entries = append(l.entries, changeEntry{revision, c})
	}
	// Not at every commit, because it copies.
	if excess := len(l.entries) - rememberedChanges; excess > rememberedChanges {
		l.forgotten = l.entries[excess-1].revision
		l.entries = slices.Clone(l.entries[excess:])
	}
}

func (l *changeLog) since(revision, upTo uint64) (list []Change, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if revision < l.forgotten {
		return nil, false
	}
	at, _ := slices.BinarySearchFunc(l.entries, revision+1, func(e changeEntry, revision uint64) int {
		if e.revision < revision {
			return -1
		}
		return 1
	})
	for _, e := range l.entries[at:] {
		if e.revision > upTo {
			break
		}
		list = append(list, e.Change)
	}
	return list, true
}
