// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// descriptor is one table that a State decides: the rows of the same name, and how they
// come from a State and go back into one. Everything else is alike for all tables.
// sequence lists them.
type descriptor struct {
	anyTable
	// encode adds the rows of a valid part of a State; nil where those of another
	// table do, as a service's backends.
	encode func(t *tables, p part)
	// decode adds to a State what the rows say; nil where those of another table do.
	decode func(t *tables, s *state.State)
}

// part is a part of a State to be encoded.
type part struct {
	*state.State
	// virtual are the virtual addresses of the VPC that it is of. They are encoded
	// apart from it.
	virtual []*state.VirtualAddress
	// have are the rows that there are.
	have *tables
}

// anyTable is what can be done with a table of whatever rows. table has all of it; a
// table that is not simply one map embeds that and has some of its own.
type anyTable interface {
	name() string
	// diff compares two states of the table.
	diff(have, want *tables) difference
	// pick adds to t those rows of from whose key is in one of the others.
	pick(t, from, a, b *tables)
	// exchange replaces rows of t by others.
	exchange(t, old, now *tables)
	// read adds what the kernel holds.
	read(r *Reader, t *tables) error
	// survey reports whether the kernel holds other rows than Apply has left.
	survey(d *Datapath) (harmed bool, err error)
	// step takes one step. It can be taken again without harm.
	step(d *Datapath, op operation) error
}

// table is the name of a table, which after mapPrefix is its map's, with the types of
// its rows.
type table[K, V comparable] string

// tables are the rows of all tables.
type tables struct {
	rows map[string]any // map[K]V by the name of a table[K, V]
	// nextID is the id of the next service without one, once there was any.
	nextID uint32
}

// none is the value of tables that are sets.
type none = struct{}

func newTables() *tables { return &tables{rows: make(map[string]any, len(descriptors))} }

// of returns the table's rows, which the caller may change.
func (n table[K, V]) of(t *tables) map[K]V {
	rows, ok := t.rows[string(n)].(map[K]V)
	if !ok {
		rows = map[K]V{}
		t.rows[string(n)] = rows
	}
	return rows
}

func (n table[K, V]) name() string { return string(n) }

func (n table[K, V]) in(r *Reader) *ebpf.Map { return r.maps[mapPrefix+string(n)] }

func (n table[K, V]) read(r *Reader, t *tables) error { return readMap(n.in(r), n.of(t)) }

func (n table[K, V]) pick(t, from, a, b *tables) {
	rows, found := n.of(from), n.of(t)
	for _, list := range []*tables{a, b} {
		for k := range n.of(list) {
			if v, ok := rows[k]; ok {
				found[k] = v
			}
		}
	}
}

func (n table[K, V]) exchange(t, old, now *tables) {
	rows := n.of(t)
	for k := range n.of(old) {
		delete(rows, k)
	}
	maps.Copy(rows, n.of(now))
}

func (n table[K, V]) step(d *Datapath, op operation) error {
	m := n.in(d.reader)
	if op.Delete {
		if err := m.Delete(op.Key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	}
	if err := m.Put(op.Key, op.Value); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// compileParts turns valid parts of these VNIs, and virtual addresses of p, into rows.
// Services that have in held with the same backends keep their id, all others get
// one that have does not use.
func compileParts(p state.Parts, vnis []uint32, addresses []*state.VirtualAddress, have *tables) *tables {
	t := newTables()
	for _, vni := range vnis {
		t.add(part{p.Part(vni), p.Services[vni], have})
	}
	for _, a := range addresses {
		t.addServices(a.Services, have)
	}
	return t
}

// add adds the rows of a part.
func (t *tables) add(p part) {
	for _, d := range descriptors {
		if d.encode != nil {
			d.encode(t, p)
		}
	}
}

// only returns the rows whose key is in one of two others.
func (t *tables) only(a, b *tables) *tables {
	found := newTables()
	for _, d := range descriptors {
		d.pick(found, t, a, b)
	}
	return found
}

// swap replaces rows by others.
func (t *tables) swap(old, now *tables) {
	for _, d := range descriptors {
		d.exchange(t, old, now)
	}
	t.nextID = max(t.nextID, now.nextID)
}

// state turns rows back into the State that they come from, in one canonical
// order.
func (t *tables) state() state.State {
	var s state.State
	for _, d := range descriptors {
		if d.decode != nil {
			d.decode(t, &s)
		}
	}
	s.Sort()
	return s
}
