// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

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

// primary is the name that go-memdb asks the index by key to have.
const primary = "id"

// table describes one kind of row. Values of this type are constants in
// everything but the language.
type table[R any] struct {
	name string
	// key is unique and orders the rows.
	key func(*R) []byte
	// meta of a row; nil for tables that mirror no API object.
	meta func(*R) *Meta
	// indexes by name; a nil key leaves the row out. None of them is unique
	// for go-memdb, which does not enforce it: a second row would silently
	// take the entry over. Put functions check where it matters.
	indexes map[string]func(*R) []byte
}

// tables are all that there are: each registers itself where it is defined.
var tables []interface{ schema() *memdb.TableSchema }

// define registers a table.
func define[R any](t table[R]) *table[R] {
	tables = append(tables, &t)
	return &t
}

func (t *table[R]) schema() *memdb.TableSchema {
	all := map[string]*memdb.IndexSchema{
		primary: {Name: primary, Unique: true, Indexer: keyIndexer[R]{t.key}},
	}
	for name, key := range t.indexes {
		all[name] = &memdb.IndexSchema{Name: name, AllowMissing: true, Indexer: keyIndexer[R]{key}}
	}
	return &memdb.TableSchema{Name: t.name, Indexes: all}
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

// get returns the row of a key, or nil. A nil key means the first row.
func (t *table[R]) get(tx ReadTx, key []byte) *R {
	b := tx.base()
	var args []any
	if key != nil {
		args = []any{key}
	}
	watch, row, err := b.memdb.FirstWatch(t.name, primary, args...)
	mustRead(err)
	t.watch(b, watch)
	if row == nil {
		return nil
	}
	return row.(*R)
}

// seq yields the rows whose key in the index starts with prefix, in the order
// of the index. Within Wait it watches exactly these rows.
func (t *table[R]) seq(tx ReadTx, index string, prefix []byte) iter.Seq[*R] {
	return func(yield func(*R) bool) {
		b := tx.base()
		rows, err := b.memdb.Get(t.name, index, prefix)
		mustRead(err)
		t.watch(b, rows.WatchCh())
		for row := rows.Next(); row != nil; row = rows.Next() {
			if !yield(row.(*R)) {
				return
			}
		}
	}
}

// from yields the rows of the index whose key is not below start, to the end
// of the index. Within Wait it watches the whole table.
func (t *table[R]) from(tx ReadTx, index string, start []byte) iter.Seq[*R] {
	return func(yield func(*R) bool) {
		b := tx.base()
		rows, err := b.memdb.LowerBound(t.name, index, start)
		mustRead(err)
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

func (t *table[R]) list(tx ReadTx, index string, prefix []byte) []*R {
	return slices.Collect(t.seq(tx, index, prefix))
}

func (t *table[R]) all(tx ReadTx) iter.Seq[*R] {
	return t.seq(tx, primary, []byte{})
}

// oldestFirst lists like list, in the order of byAge.
func (t *table[R]) oldestFirst(tx ReadTx, index string, prefix []byte) []*R {
	rows := t.list(tx, index, prefix)
	slices.SortFunc(rows, t.byAge)
	return rows
}

// byAge orders by creation, then key. The API keeps full seconds, so that objects
// applied from one file have one age. Their keys are the names that a person chose;
// UIDs are random.
func (t *table[R]) byAge(a, b *R) int {
	if byTime := t.meta(a).Created.Compare(t.meta(b).Created); byTime != 0 {
		return byTime
	}
	return bytes.Compare(t.key(a), t.key(b))
}

func (t *table[R]) watch(b *txn, ch <-chan struct{}) {
	if b.watches == nil {
		return
	}
	if len(b.watches.channels) >= watchLimit {
		ch = t.anyChange(b)
	}
	b.watches.Add(ch)
}

// anyChange returns a channel that is closed when any row of the table changes.
func (t *table[R]) anyChange(b *txn) <-chan struct{} {
	rows, err := b.memdb.Get(t.name, primary, []byte{})
	mustRead(err)
	return rows.WatchCh()
}

// change is what a row would change in a table.
type change int

const (
	// changeNone: the row is older than, or equal to, the one held.
	changeNone change = iota
	// changeVersion: the row differs in its resource version only.
	changeVersion
	// changeContent: the row is new or says something new.
	changeContent
)

// compare describes what a row would change, held being the row in its place or nil.
func (t *table[R]) compare(row, held *R) change {
	if held == nil {
		return changeContent
	}
	if t.meta == nil {
		return equalOr(row, held, changeContent)
	}
	next, last := t.meta(row), t.meta(held)
	if next.UID == last.UID && olderVersion(next.ResourceVersion, last.ResourceVersion) {
		return changeNone
	}
	if next.ResourceVersion == last.ResourceVersion {
		return equalOr(row, held, changeContent)
	}
	likeHeld := *row
	t.meta(&likeHeld).ResourceVersion = last.ResourceVersion
	if reflect.DeepEqual(&likeHeld, held) {
		return changeVersion
	}
	return changeContent
}

func equalOr[R any](row, held *R, otherwise change) change {
	if reflect.DeepEqual(row, held) {
		return changeNone
	}
	return otherwise
}

// put inserts the row if it changes something, and says what.
func (t *table[R]) put(tx Tx, row *R) (change, error) {
	held := t.get(tx, t.key(row))
	what := t.compare(row, held)
	return what, t.insert(tx, row, held, what)
}

// insert writes a row in the place of held, or of none if that is nil.
func (t *table[R]) insert(tx Tx, row, held *R, what change) error {
	if what == changeNone {
		return nil
	}
	w := tx.writable()
	if err := w.memdb.Insert(t.name, row); err != nil {
		return fmt.Errorf("insert %s: %w", t.name, err)
	}
	w.written = max(w.written, what)
	if what == changeContent {
		t.note(w, row, held)
	}
	return nil
}

// note remembers what has become of a row; nil stands for none.
func (t *table[R]) note(w *txn, row, held *R) {
	if t.meta == nil {
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

// remove deletes the row of a key if it has that UID, and returns it, or nil.
func (t *table[R]) remove(tx Tx, key []byte, uid string) *R {
	held := t.get(tx, key)
	if held == nil || (t.meta != nil && t.meta(held).UID != uid) {
		return nil
	}
	w := tx.writable()
	mustRead(w.memdb.Delete(t.name, held))
	w.written = changeContent
	t.note(w, nil, held)
	return held
}

// mustRead panics on errors of go-memdb that come from nothing but a table,
// index or argument unknown to the schema, which this package alone writes.
func mustRead(err error) {
	if err != nil {
		panic(fmt.Sprintf("store: %v", err))
	}
}
