// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/hashicorp/go-memdb"
)

// watchLimit is the number of single rows that one Wait watches before it
// watches whole tables, which wakes it more often but costs less.
const watchLimit = 512

// Primary is the index by key, under the name that go-memdb requires.
const Primary = "id"

// Table describes one kind of row, of type R.
type Table[R any] struct {
	Name string
	// Key is unique and orders the rows.
	Key func(*R) []byte
	// Meta of a row; nil for tables that mirror no API object.
	Meta func(*R) *Meta
	// Indexes by name; a nil key leaves the row out. None of them is unique
	// for go-memdb, which does not enforce it: a second row would silently
	// take the entry over. Put functions check where it matters.
	Indexes map[string]func(*R) []byte
	// Multiple are indexes by name where a row has any number of keys.
	Multiple map[string]func(*R) [][]byte
}

// tables are all that there are: each registers itself where it is defined.
var tables []interface{ schema() *memdb.TableSchema }

// Define registers a table. Each store that is opened later has it.
func Define[R any](t Table[R]) *Table[R] {
	tables = append(tables, &t)
	return &t
}

// HasIndex reports whether the store of a transaction keeps an index of the table.
func (t *Table[R]) HasIndex(tx ReadTx, index string) bool {
	return tx.base().store.schema.Tables[t.Name].Indexes[index] != nil
}

func (t *Table[R]) schema() *memdb.TableSchema {
	all := map[string]*memdb.IndexSchema{
		Primary: {Name: Primary, Unique: true, Indexer: keyIndexer[R]{t.Key}},
	}
	for name, key := range t.Indexes {
		all[name] = &memdb.IndexSchema{Name: name, AllowMissing: true, Indexer: keyIndexer[R]{key}}
	}
	for name, keys := range t.Multiple {
		all[name] = &memdb.IndexSchema{Name: name, AllowMissing: true, Indexer: keysIndexer[R]{keys}}
	}
	return &memdb.TableSchema{Name: t.Name, Indexes: all}
}

// keyIndexer lets go-memdb index rows by a key function. Arguments of look-ups
// are complete keys or prefixes of them.
type keyIndexer[R any] struct {
	key func(*R) []byte
}

// FromObject implements memdb.SingleIndexer.
func (i keyIndexer[R]) FromObject(row any) (bool, []byte, error) {
	key := i.key(row.(*R))
	return key != nil, key, nil
}

// FromArgs implements memdb.Indexer.
func (i keyIndexer[R]) FromArgs(args ...any) ([]byte, error) {
	return args[0].([]byte), nil
}

// keysIndexer is a keyIndexer for any number of keys of a row.
type keysIndexer[R any] struct {
	keys func(*R) [][]byte
}

// FromObject implements memdb.MultiIndexer.
func (i keysIndexer[R]) FromObject(row any) (bool, [][]byte, error) {
	keys := i.keys(row.(*R))
	return len(keys) > 0, keys, nil
}

// FromArgs implements memdb.Indexer.
func (i keysIndexer[R]) FromArgs(args ...any) ([]byte, error) {
	return args[0].([]byte), nil
}

// Get returns the row of a key, or nil. A nil key means the first row.
func (t *Table[R]) Get(tx ReadTx, key []byte) *R {
	b := tx.base()
	var args []any
	if key != nil {
		args = []any{key}
	}
	watch, row, err := b.memdb.FirstWatch(t.Name, Primary, args...)
	Must(err)
	t.watch(b, watch)
	if row == nil {
		return nil
	}
	return row.(*R)
}

// Seq yields the rows whose key in the index starts with prefix, in the order
// of the index. Within Wait it watches exactly these rows.
func (t *Table[R]) Seq(tx ReadTx, index string, prefix []byte) iter.Seq[*R] {
	return func(yield func(*R) bool) {
		b := tx.base()
		rows, err := b.memdb.Get(t.Name, index, prefix)
		Must(err)
		t.watch(b, rows.WatchCh())
		for row := rows.Next(); row != nil; row = rows.Next() {
			if !yield(row.(*R)) {
				return
			}
		}
	}
}

// From yields the rows of the index whose key is not below start, to the end
// of the index. Within Wait it watches the whole table.
func (t *Table[R]) From(tx ReadTx, index string, start []byte) iter.Seq[*R] {
	return func(yield func(*R) bool) {
		b := tx.base()
		rows, err := b.memdb.LowerBound(t.Name, index, start)
		Must(err)
		if b.watches != nil {
			b.watches.Add(t.anyChange(b))
		}
		for row := rows.Next(); row != nil; row = rows.Next() {
			if !yield(row.(*R)) {
				return
			}
		}
	}
}

// List lists the rows whose key in the index starts with prefix, in the order of the
// index.
func (t *Table[R]) List(tx ReadTx, index string, prefix []byte) []*R {
	return slices.Collect(t.Seq(tx, index, prefix))
}

// All yields all rows, in the order of their keys.
func (t *Table[R]) All(tx ReadTx) iter.Seq[*R] {
	return t.Seq(tx, Primary, []byte{})
}

// OldestFirst lists like List, in the order of ByAge.
func (t *Table[R]) OldestFirst(tx ReadTx, index string, prefix []byte) []*R {
	rows := t.List(tx, index, prefix)
	slices.SortFunc(rows, t.ByAge)
	return rows
}

// ByAge orders by creation, then key. The API keeps full seconds, so that objects
// applied from one file have one age. Their keys are the names that a person chose;
// UIDs are random.
func (t *Table[R]) ByAge(a, b *R) int {
	if byTime := t.Meta(a).Created.Compare(t.Meta(b).Created); byTime != 0 {
		return byTime
	}
	return bytes.Compare(t.Key(a), t.Key(b))
}

func (t *Table[R]) watch(b *txn, ch <-chan struct{}) {
	if b.watches == nil {
		return
	}
	if len(b.watches.channels) >= watchLimit {
		ch = t.anyChange(b)
	}
	b.watches.Add(ch)
}

// anyChange returns a channel that is closed when any row of the table changes.
func (t *Table[R]) anyChange(b *txn) <-chan struct{} {
	rows, err := b.memdb.Get(t.Name, Primary, []byte{})
	Must(err)
	return rows.WatchCh()
}

// Difference is the change of a table by a row.
type Difference int

const (
	// Same means that the row is older than, or equal to, the one in the store.
	Same Difference = iota
	// NewVersion means that the row differs in its resource version only.
	NewVersion
	// NewContent means that the row is new or has new content.
	NewContent
)

// Compare describes the change by a row, held being the row in its place or nil.
func (t *Table[R]) Compare(row, held *R) Difference {
	if held == nil {
		return NewContent
	}
	if t.Meta == nil {
		return equalOr(row, held, NewContent)
	}
	next, last := t.Meta(row), t.Meta(held)
	if next.UID == last.UID && olderVersion(next.ResourceVersion, last.ResourceVersion) {
		return Same
	}
	if next.ResourceVersion == last.ResourceVersion {
		return equalOr(row, held, NewContent)
	}
	likeHeld := *row
	t.Meta(&likeHeld).ResourceVersion = last.ResourceVersion
	if reflect.DeepEqual(&likeHeld, held) {
		return NewVersion
	}
	return NewContent
}

func equalOr[R any](row, held *R, otherwise Difference) Difference {
	if reflect.DeepEqual(row, held) {
		return Same
	}
	return otherwise
}

// Put inserts the row if it changes something, and returns the change.
func (t *Table[R]) Put(tx Tx, row *R) (Difference, error) {
	held := t.Get(tx, t.Key(row))
	what := t.Compare(row, held)
	return what, t.Insert(tx, row, held, what)
}

// Insert writes a row in the place of held, or of none if that is nil.
func (t *Table[R]) Insert(tx Tx, row, held *R, what Difference) error {
	if what == Same {
		return nil
	}
	w := tx.writable()
	if err := w.memdb.Insert(t.Name, row); err != nil {
		return fmt.Errorf("insert %s: %w", t.Name, err)
	}
	w.written = max(w.written, what)
	if what == NewContent {
		t.note(w, row, held)
	}
	return nil
}

// note remembers the new state of a row; nil stands for no row.
func (t *Table[R]) note(w *txn, row, held *R) {
	if t.Meta == nil {
		return
	}
	var c Change
	if held != nil {
		c.Old = held
	}
	if row != nil {
		c.New = row
	}
	w.changed = append(w.changed, c)
}

// Remove deletes the row of a key if it has that UID, and returns it, or nil.
func (t *Table[R]) Remove(tx Tx, key []byte, uid string) *R {
	held := t.Get(tx, key)
	if held == nil || (t.Meta != nil && t.Meta(held).UID != uid) {
		return nil
	}
	w := tx.writable()
	Must(w.memdb.Delete(t.Name, held))
	w.written = NewContent
	t.note(w, nil, held)
	return held
}

// Must panics on errors that come from nothing but a table, index or argument unknown
// to the schema, which is a mistake in a program.
func Must(err error) {
	if err != nil {
		panic(fmt.Sprintf("store: %v", err))
	}
}
