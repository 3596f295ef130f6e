// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"slices"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
)

// changeTracker has the last examined version of store and journal, so that they are
// examined again only after a change: with 1,000 attachments an examination takes as
// long as a whole pass for one change. Its method must not be called concurrently.
type changeTracker struct {
	looked   bool
	revision uint64
	records  []journal.Record
}

// stale reports whether to examine store and journal again: the first time, after a change of the
// journal, and after a change of a row that concerns accepts.
func (t *changeTracker) stale(tx store.ReadTx, records []journal.Record, concerns func(store.Change) bool) bool {
	changes, ok := store.ChangesSince(tx, t.revision)
	stale := !t.looked || !ok || !journal.Same(t.records, records) || slices.ContainsFunc(changes, concerns)
	t.looked, t.revision, t.records = true, tx.Revision(), records
	return stale
}
