// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tables turns a State into the rows of maps and back, finds the differences,
// and orders the steps between two sets of rows so that no step opens a forbidden path
// or loses a permitted packet. There is one descriptor per table; tables of one area
// share a file. sequence lists the descriptors; comparison, exchange, survey, reading
// and dumping follow it.
package tables

import (
	"maps"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// descriptor is one table that a State decides: the rows of the same name, their
// encoding from a State and their decoding. All other code is the same for all tables.
// sequence lists them.
type descriptor struct {
	anyTable
	// encode adds the rows of a valid part of a State; nil if another table's encode
	// does so, as for a service's backends.
	encode func(t *Rows, p part)
	// decode adds the content of the rows to a State; nil if another table's decode
	// does so.
	decode func(t *Rows, s *state.State)
}

// part is a part of a State to be encoded.
type part struct {
	*state.State
	// virtual are the virtual addresses of the part's VPC, which are encoded apart from
	// it.
	virtual state.VirtualAddresses
	// have are the present rows.
	have *Rows
}

// anyTable has the operations on a table of any type of rows. table implements all of
// it; a table that is not simply one map embeds table and replaces some.
type anyTable interface {
	name() string
	// diff compares two states of the table.
	diff(have, want *Rows) difference
	// pick adds the rows of from to t whose key is in a or b.
	pick(t, from, a, b *Rows)
	// exchange replaces rows of t.
	exchange(t, old, now *Rows)
	// read adds the rows that the kernel has.
	read(k *Kernel, t *Rows) error
	// survey reports whether the kernel has other rows than wanted.
	survey(k *Kernel, compare Compare) (harmed bool, err error)
	// step takes one step. It can be repeated without harm.
	step(k *Kernel, op Operation) error
}

// table is the name of a table, with the types of its rows. Its map has the same name
// after prefix.
type table[K, V comparable] string

// Rows are the rows of all tables. The zero value has none.
type Rows struct {
	rows map[string]any // map[K]V by the name of a table[K, V]
	// nextID is the id of the next new service; 0 before the first one was needed.
	nextID uint32
}

// none is the value of tables that are sets.
type none = struct{}

// of returns the table's rows, which the caller may change.
func (n table[K, V]) of(t *Rows) map[K]V {
	rows, ok := t.rows[string(n)].(map[K]V)
	if !ok {
		if t.rows == nil {
			t.rows = make(map[string]any, len(descriptors))
		}
		rows = map[K]V{}
		t.rows[string(n)] = rows
	}
	return rows
}

func (n table[K, V]) name() string { return string(n) }

// in returns the table's map.
func (n table[K, V]) in(m bpf.Maps) *ebpf.Map { return m[bpf.Prefix+string(n)] }

func (n table[K, V]) pick(t, from, a, b *Rows) {
	rows, found := n.of(from), n.of(t)
	for _, list := range []*Rows{a, b} {
		for k := range n.of(list) {
			if v, ok := rows[k]; ok {
				found[k] = v
			}
		}
	}
}

func (n table[K, V]) exchange(t, old, now *Rows) {
	rows := n.of(t)
	for k := range n.of(old) {
		delete(rows, k)
	}
	maps.Copy(rows, n.of(now))
}

// Compile turns valid parts of these VNIs, and virtual addresses of p, into rows.
// Services that are in held with the same backends keep their id; all others get an id
// that have does not use.
func Compile(p state.Parts, vnis []uint32, addresses []*state.VirtualAddress, have *Rows) *Rows {
	t := &Rows{}
	for _, vni := range vnis {
		t.add(part{p.Part(vni), p.Services[vni], have})
	}
	for _, a := range addresses {
		t.addServices(a.Services, have)
	}
	return t
}

// add adds the rows of a part.
func (t *Rows) add(p part) {
	for _, d := range descriptors {
		if d.encode != nil {
			d.encode(t, p)
		}
	}
}

// Only returns the rows whose key is in a or b.
func (t *Rows) Only(a, b *Rows) *Rows {
	found := &Rows{}
	for _, d := range descriptors {
		d.pick(found, t, a, b)
	}
	return found
}

// Swap replaces rows by others.
func (t *Rows) Swap(old, now *Rows) {
	for _, d := range descriptors {
		d.exchange(t, old, now)
	}
	t.nextID = max(t.nextID, now.nextID)
}

// State turns rows back into a State, in a canonical order.
func (t *Rows) State() state.State {
	var s state.State
	for _, d := range descriptors {
		if d.decode != nil {
			d.decode(t, &s)
		}
	}
	s.Sort()
	return s
}

// Lacks returns the first row of s, which may be a part of a State, that is missing in
// t or differs there, as the step that writes it.
func (t *Rows) Lacks(s state.State) (missing Operation, any bool) {
	want := &Rows{}
	want.add(part{State: &s, have: t})
	for ifindex, row := range interfaceTable.of(want) {
		row.Flags = row.Flags&^laterFlags | interfaceTable.of(t)[ifindex].Flags&laterFlags
		interfaceTable.of(want)[ifindex] = row
	}
	for _, op := range Plan(t, want) {
		if !op.Delete {
			return op, true
		}
	}
	return Operation{}, false
}

// Forget removes the rows of a device that is gone: no program is attached to it any
// more. It returns the VNI of the device's interface, if it had one.
func (t *Rows) Forget(ifindex uint32) (vni uint32, known bool) {
	for _, p := range []hook.Program{hook.FromPod, hook.FromNetkit, hook.ToPod} {
		delete(attachmentTable.of(t), hook.Attachment{Ifindex: ifindex, Program: p})
	}
	row, known := interfaceTable.of(t)[ifindex]
	return row.Vni, known
}

// MapOf returns the name of the map, or of one of the maps, that a table is in.
func MapOf(table string) string {
	if table == string(flowTable) {
		return bpf.OpenedMap
	}
	return bpf.Prefix + table
}
