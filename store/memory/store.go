// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-memdb"
)

// Store holds the rows. Its methods may be called from any goroutine.
type Store struct {
	db      *memdb.MemDB
	schema  *memdb.DBSchema
	changes changeLog
}

// ReadTx is a consistent snapshot of all tables.
type ReadTx interface {
	// Revision counts the commits that changed the content of a row, from 0 for an
	// empty store. A new resource version alone doesn't count: API objects get one
	// with every heartbeat.
	Revision() uint64

	base() *txn
}

// Tx is a transaction that may write. It sees its own writes.
type Tx interface {
	ReadTx

	writable() *txn
}

// Index names an index of a table.
type Index struct{ Table, Name string }

// New returns an empty store with every table that is defined, without the indexes to
// leave out: reading by one of them panics.
func New(leaveOut ...Index) (*Store, error) {
	schema := schema()
	for _, index := range leaveOut {
		delete(schema.Tables[index.Table].Indexes, index.Name)
	}
	db, err := memdb.NewMemDB(schema)
	if err != nil {
		return nil, fmt.Errorf("create store: %w", err)
	}
	return &Store{db: db, schema: schema}, nil
}

func schema() *memdb.DBSchema {
	all := map[string]*memdb.TableSchema{}
	for _, t := range tables {
		s := t.schema()
		all[s.Name] = s
	}
	return &memdb.DBSchema{Tables: all}
}

// View calls fn with a snapshot, which may be used after fn returns and is
// never changed by later commits.
func (s *Store) View(fn func(tx ReadTx)) {
	fn(&txn{memdb: s.db.Txn(false), store: s})
}

// Update calls fn with a transaction: nil commits all that fn wrote, an error
// aborts it and is returned as it is. fn must not keep tx.
func (s *Store) Update(fn func(tx Tx) error) error {
	tx := &txn{memdb: s.db.Txn(true), store: s}
	defer tx.memdb.Abort() // does nothing after a commit
	if err := fn(tx); err != nil {
		return err
	}
	switch tx.written {
	case Same:
		return nil
	case NewVersion:
	case NewContent:
		next := &revision{number: tx.Revision() + 1}
		if err := revisions.Insert(tx, next, nil, NewContent); err != nil {
			return err
		}
		s.changes.add(next.number, tx.changed)
	}
	tx.memdb.Commit()
	return nil
}

// Wait calls ready with a snapshot, at once and then whenever something that
// ready had read has changed, until it returns true or ctx ends; then it
// returns nil or the error of ctx. It wakes when a change concerns the rows that the
// last call read through tx, or when one of the channels closes that it added to ws. A
// call of tx.Revision() makes it wake with every commit that changes the revision.
func (s *Store) Wait(ctx context.Context, ready func(tx ReadTx, ws *WatchSet) bool) error {
	for {
		ws := &WatchSet{channels: memdb.NewWatchSet()}
		if ready(&txn{memdb: s.db.Txn(false), store: s, watches: ws}, ws) {
			return nil
		}
		if err := ws.channels.WatchCtx(ctx); err != nil {
			return err
		}
	}
}

// WatchSet collects the rows that a call of Wait wakes on. Reading rows adds to it by itself.
type WatchSet struct {
	channels memdb.WatchSet
}

// Add makes Wait look again when ch is closed, for causes outside the store.
func (ws *WatchSet) Add(ch <-chan struct{}) {
	ws.channels.Add(ch)
}

// txn implements ReadTx and Tx.
type txn struct {
	memdb *memdb.Txn
	store *Store
	// watches is nil except within Wait.
	watches *WatchSet
	// written is the most that a write has changed so far.
	written Difference
	// changed are the rows whose content was written, without rows that mirror no API object.
	changed []Change
}

func (tx *txn) base() *txn     { return tx }
func (tx *txn) writable() *txn { return tx }

// Revision implements ReadTx.
func (tx *txn) Revision() uint64 {
	if row := revisions.Get(tx, nil); row != nil {
		return row.number
	}
	return 0
}

// revision is the only row of its table, so that the number belongs to the
// snapshot and can be watched like any row.
type revision struct {
	number uint64
}

var revisions = Define(Table[revision]{
	Name: "revision",
	Key:  func(*revision) []byte { return []byte{0} },
})
