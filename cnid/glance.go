// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"slices"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
)

// glance remembers up to where somebody has looked at store and journal, so that
// they look again only when there is something else to see: with 1,000
// attachments a look takes as long as a whole pass for one change. Its method
// must not be called at the same time.
type glance struct {
	looked   bool
	revision uint64
	records  []journal.Record
}

// again reports whether to look again: the first time, after the journal has changed,
// and after a change of a row that concerns whoever looks.
func (g *glance) again(tx store.ReadTx, records []journal.Record, concerns func(store.Change) bool) bool {
	changes, ok := store.ChangesSince(tx, g.revision)
	again := !g.looked || !ok || !sameRecords(g.records, records) || slices.ContainsFunc(changes, concerns)
	g.looked, g.revision, g.records = true, tx.Revision(), records
	return again
}

// sameRecords reports whether two lists of the journal are one, see
// journal.Records.
func sameRecords(a, b []journal.Record) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
