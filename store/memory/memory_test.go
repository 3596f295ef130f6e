// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/store/memory"
)

// row mirrors an API object; note mirrors none.
type (
	row struct {
		memory.Meta
		name, colour string
	}
	note struct{ name string }
)

const (
	byColour = "colour"
	byLetter = "letter"
)

var (
	rows = memory.Define(memory.Table[row]{
		Name: "test-row",
		Key:  func(r *row) []byte { return memory.TextKey(r.name) },
		Meta: func(r *row) *memory.Meta { return &r.Meta },
		Indexes: map[string]func(*row) []byte{byColour: func(r *row) []byte {
			if r.colour == "" {
				return nil
			}
			return memory.TextKey(r.colour, r.name)
		}},
		Multiple: map[string]func(*row) [][]byte{byLetter: func(r *row) (keys [][]byte) {
			for _, letter := range r.colour {
				keys = append(keys, memory.TextKey(string(letter)))
			}
			return keys
		}},
	})
	notes = memory.Define(memory.Table[note]{
		Name: "test-note",
		Key:  func(n *note) []byte { return memory.TextKey(n.name) },
	})
)

func newStore(t *testing.T, leaveOut ...memory.Index) *memory.Store {
	t.Helper()
	s, err := memory.New(leaveOut...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put writes rows in one transaction.
func put(t *testing.T, s *memory.Store, list ...*row) {
	t.Helper()
	err := s.Update(func(tx memory.Tx) error {
		for _, r := range list {
			if _, err := rows.Put(tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, s *memory.Store, name, uid string) (removed *row) {
	t.Helper()
	err := s.Update(func(tx memory.Tx) error {
		removed = rows.Remove(tx, memory.TextKey(name), uid)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return removed
}

func get(s *memory.Store, name string) (r *row) {
	s.View(func(tx memory.ReadTx) { r = rows.Get(tx, memory.TextKey(name)) })
	return r
}

func revision(s *memory.Store) (number uint64) {
	s.View(func(tx memory.ReadTx) { number = tx.Revision() })
	return number
}

func version(name, uid, version, colour string) *row {
	return &row{Meta: memory.Meta{UID: uid, ResourceVersion: version}, name: name, colour: colour}
}

func names(list []*row) (names []string) {
	for _, r := range list {
		names = append(names, r.name)
	}
	return names
}

func TestTransaction_Fails_NothingLeft(t *testing.T) {
	s := newStore(t)
	put(t, s, version("kept", "1", "1", ""))
	refused := errors.New("refused")
	err := s.Update(func(tx memory.Tx) error {
		if _, err := rows.Put(tx, version("new", "2", "2", "")); err != nil {
			return err
		}
		if rows.Remove(tx, memory.TextKey("kept"), "1") == nil || rows.Get(tx, memory.TextKey("new")) == nil {
			t.Error("a transaction does not read its own writes")
		}
		return refused
	})
	if !errors.Is(err, refused) || get(s, "new") != nil || get(s, "kept") == nil || revision(s) != 1 {
		t.Errorf("%v; new %v, kept %v, revision %d", err, get(s, "new"), get(s, "kept"), revision(s))
	}
}

func TestSnapshot_LaterTransaction_Unchanged(t *testing.T) {
	s := newStore(t)
	put(t, s, version("a", "1", "1", "red"))
	s.View(func(tx memory.ReadTx) {
		put(t, s, version("a", "1", "2", "blue"), version("b", "2", "3", ""))
		if got := names(slices.Collect(rows.All(tx))); !slices.Equal(got, []string{"a"}) || rows.Get(tx, memory.TextKey("a")).colour != "red" || tx.Revision() != 1 {
			t.Errorf("the snapshot has %v at revision %d", got, tx.Revision())
		}
	})
	if got := get(s, "a"); got.colour != "blue" || revision(s) != 2 {
		t.Errorf("the store has %v at revision %d", got, revision(s))
	}
}

func TestPut_VersionAndObject_NewerOrOtherReplaces(t *testing.T) {
	for name, c := range map[string]struct {
		next     *row
		want     memory.Difference
		revision uint64
	}{
		"the same row":                      {version("a", "1", "9", "red"), memory.Same, 1},
		"a new version, equal content":      {version("a", "1", "10", "red"), memory.NewVersion, 1},
		"a new version, other content":      {version("a", "1", "10", "blue"), memory.NewContent, 2},
		"an older version, other content":   {version("a", "1", "8", "blue"), memory.Same, 1},
		"an older version, another object":  {version("a", "2", "8", "red"), memory.NewContent, 2},
		"a version that is no number, same": {version("a", "1", "x", "red"), memory.NewVersion, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			put(t, s, version("a", "1", "9", "red"))
			var got memory.Difference
			err := s.Update(func(tx memory.Tx) (err error) {
				got, err = rows.Put(tx, c.next)
				return err
			})
			if err != nil || got != c.want || revision(s) != c.revision {
				t.Errorf("difference %d, revision %d, %v; want %d and %d", got, revision(s), err, c.want, c.revision)
			}
			if held := get(s, "a"); (*held == *c.next) != (c.want != memory.Same || name == "the same row") {
				t.Errorf("the store has %v", held)
			}
		})
	}
}

func TestDelete_OtherUID_NotRemoved(t *testing.T) {
	s := newStore(t)
	put(t, s, version("a", "2", "1", "red"))
	if removed := remove(t, s, "a", "1"); removed != nil || get(s, "a") == nil || revision(s) != 1 {
		t.Errorf("removed %v of another UID", removed)
	}
	if removed := remove(t, s, "a", "2"); removed == nil || get(s, "a") != nil || revision(s) != 2 {
		t.Errorf("removed %v, revision %d", removed, revision(s))
	}
	s.View(func(tx memory.ReadTx) {
		if list := rows.List(tx, byColour, memory.TextKey("red")); len(list) != 0 {
			t.Errorf("the index has %v", names(list))
		}
	})
}

func TestIndex_Prefix_ListedInOrder(t *testing.T) {
	s := newStore(t)
	young, old := version("a", "1", "1", "red"), version("b", "2", "2", "red")
	young.Created, old.Created = time.Unix(2, 0), time.Unix(1, 0)
	put(t, s, young, old, version("c", "3", "3", "blue"), version("d", "4", "4", "redder"), version("e", "5", "5", ""))
	put(t, s, version("c", "3", "6", "green"))
	s.View(func(tx memory.ReadTx) {
		for what, c := range map[string]struct{ got, want []string }{
			"red":                {names(rows.List(tx, byColour, memory.TextKey("red"))), []string{"a", "b"}},
			"red, oldest first":  {names(rows.OldestFirst(tx, byColour, memory.TextKey("red"))), []string{"b", "a"}},
			"a former colour":    {names(rows.List(tx, byColour, memory.TextKey("blue"))), nil},
			"all with a colour":  {names(rows.List(tx, byColour, []byte{})), []string{"c", "a", "b", "d"}},
			"all":                {names(slices.Collect(rows.All(tx))), []string{"a", "b", "c", "d", "e"}},
			"from a key onwards": {names(slices.Collect(rows.From(tx, byColour, memory.TextKey("red", "b")))), []string{"b", "d"}},
		} {
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
	})
}

func TestIndex_SeveralKeys_FoundByEach(t *testing.T) {
	s := newStore(t)
	put(t, s, version("a", "1", "1", "red"), version("b", "2", "2", "blue"), version("c", "3", "3", ""), version("d", "4", "4", "green"))
	put(t, s, version("b", "2", "5", "red"))
	remove(t, s, "d", "4")
	s.View(func(tx memory.ReadTx) {
		for letter, want := range map[string][]string{"r": {"a", "b"}, "e": {"a", "b"}, "d": {"a", "b"}, "u": nil, "n": nil} {
			if diff := cmp.Diff(want, names(rows.List(tx, byLetter, memory.TextKey(letter)))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", letter, diff)
			}
		}
	})
}

func TestStore_NoIndex_Works(t *testing.T) {
	s := newStore(t, memory.Index{Table: "test-row", Name: byColour})
	put(t, s, version("a", "1", "1", "red"))
	s.View(func(tx memory.ReadTx) {
		if rows.HasIndex(tx, byColour) || !rows.HasIndex(tx, memory.Primary) || rows.Get(tx, memory.TextKey("a")) == nil {
			t.Error("want the primary index alone")
		}
	})
	newStore(t).View(func(tx memory.ReadTx) {
		if !rows.HasIndex(tx, byColour) {
			t.Error("an index is left out in another store too")
		}
	})
}

func TestWait_ReadRowsChange_EvaluatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		put(t, s, version("a", "1", "1", "red"))
		extra := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		evaluated, ended := 0, make(chan error, 1)
		go func() {
			ended <- s.Wait(ctx, func(tx memory.ReadTx, ws *memory.WatchSet) bool {
				evaluated++
				ws.Add(extra)
				return rows.Get(tx, memory.TextKey("a")).colour == "blue"
			})
		}()
		expect := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if evaluated != want {
				t.Errorf("%s: evaluated %d times, want %d", when, evaluated, want)
			}
		}
		expect("at the start", 1)
		err := s.Update(func(tx memory.Tx) error {
			_, err := notes.Put(tx, &note{name: "a"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		expect("after a row of another table", 1)
		put(t, s, version("a", "1", "2", "green"))
		expect("after a change of the row", 2)
		old := extra
		extra = make(chan struct{})
		close(old)
		expect("after the channel was closed", 3)
		put(t, s, version("a", "1", "3", "blue"))
		if err := <-ended; err != nil {
			t.Error(err)
		}
		cancel()
	})
}

func TestWait_ContextEnds_Returns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newStore(t).Wait(ctx, func(memory.ReadTx, *memory.WatchSet) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestChangesSince_Revision_ChangesOfItsTransactions(t *testing.T) {
	s := newStore(t)
	first, second, other := version("a", "1", "1", "red"), version("a", "1", "2", "blue"), version("b", "2", "3", "")
	put(t, s, first)
	before := revision(s)
	put(t, s, second, other)
	put(t, s, version("b", "2", "4", "")) // a new version alone is not a change
	gone := remove(t, s, "b", "2")
	s.View(func(tx memory.ReadTx) {
		got, ok := memory.ChangesSince(tx, before)
		want := []memory.Change{{Old: first, New: second}, {New: other}, {Old: gone}}
		if !ok || !slices.Equal(got, want) {
			t.Errorf("got %v, %v; want %v", got, ok, want)
		}
		put(t, s, version("c", "3", "5", ""))
		if later, _ := memory.ChangesSince(tx, before); len(later) != len(want) {
			t.Errorf("a snapshot has %d changes after a later one, want %d", len(later), len(want))
		}
	})
}

func TestChangesSince_OldRevision_ReportedForgotten(t *testing.T) {
	s := newStore(t)
	const many = 5000
	for i := range many {
		put(t, s, version("a", "1", "1", string(rune('a'+i%2))))
	}
	s.View(func(tx memory.ReadTx) {
		if list, ok := memory.ChangesSince(tx, 0); ok {
			t.Errorf("%d changes of %d are given as all", len(list), many)
		}
		if list, ok := memory.ChangesSince(tx, many-100); !ok || len(list) != 100 {
			t.Errorf("%d of the last 100 changes, %v", len(list), ok)
		}
	})
}
