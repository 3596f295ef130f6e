// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"slices"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
)

// changeTracker remembers up to where somebody has looked at store and journal, so that
// they look again only when there is something else to see: with 1,000
// attachments a look takes as long as a whole pass for one change. Its method
// must not be called at the same time.
type changeTracker struct {
	looked   bool
	revision uint64
	records  []journal.Record
}

// stale reports whether to look again: the first time, after the journal has changed,
// and after a change of a row for which concerns returns true.
func (t *changeTracker) stale(tx store.ReadTx, records []journal.Record, concerns func(store.Change) bool) bool {
	changes, ok := store.ChangesSince(tx, t.revision)
	stale := !t.looked || !ok || !journal.Same(t.records, records) || slices.ContainsFunc(changes, concerns)
	t.looked, t.revision, t.records = true, tx.Revision(), records
	return stale
}
