// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
)

// Kernel is the place of the rows of tables. A reader of maps needs no other field.
type Kernel struct {
	Maps bpf.Maps
	// Programs are the programs on the devices of interfaces.
	Programs Programs
	// Flows are the interfaces' counters of flows to services.
	Flows Accounts
}

// Programs attaches programs to devices.
type Programs interface {
	// Attached returns the places of the current programs.
	Attached() (map[hook.Attachment]struct{}, error)
	// Ensure attaches a program, or does nothing if it is attached. Its error is the
	// device's.
	Ensure(a hook.Attachment) error
}

// Accounts are the counters of interfaces' flows, by the index of the device.
type Accounts interface {
	// Open allows an interface to have flows. Existing counters are left as they are.
	Open(ifindex uint32) error
	// End deletes an interface's flows and its counters, if it has any.
	End(ifindex uint32) error
}

// Read reads every table.
func (k *Kernel) Read() (*Rows, error) {
	t := &Rows{}
	for _, d := range descriptors {
		if err := d.read(k, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Step takes one step of a plan. It can be repeated without harm.
func (k *Kernel) Step(op Operation) error { return byTable[op.Table].step(k, op) }

// Compare compares a part with the wanted rows, which do not change meanwhile. It returns false
// if the wanted rows are not known.
type Compare func(differs func(have *Rows) (bool, error)) (bool, error)

// Survey reports whether the kernel has other rows than wanted. It changes nothing, and
// reads each table before it compares it.
func (k *Kernel) Survey(compare Compare) (harmed bool, err error) {
	for _, d := range descriptors {
		if harmed, err = d.survey(k, compare); harmed || err != nil {
			return harmed, err
		}
	}
	return false, nil
}

func (n table[K, V]) read(k *Kernel, t *Rows) error { return bpf.ReadMap(n.in(k.Maps), n.of(t)) }

// survey reports whether a map has other rows than wanted. The map may change after it
// was read: so differing rows are read again.
func (n table[K, V]) survey(k *Kernel, compare Compare) (harmed bool, err error) {
	m := n.in(k.Maps)
	if m.Type() != ebpf.Hash { // a trie finds the longest prefix that contains a key, not the key; there are few rows
		return compare(func(have *Rows) (bool, error) {
			seen := map[K]V{}
			err := bpf.ReadMap(m, seen)
			return !maps.Equal(seen, n.of(have)), err
		})
	}
	seen := map[K]V{}
	if err := bpf.ReadMap(m, seen); err != nil {
		return false, err
	}
	return compare(func(have *Rows) (bool, error) { return differs(m, seen, n.of(have)) })
}

func (n table[K, V]) step(k *Kernel, op Operation) error {
	m := n.in(k.Maps)
	// Of pointers to rows cilium/ebpf uses the memory; it encodes values field by field.
	key := op.Key.(K)
	if op.Delete {
		if err := m.Delete(&key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	}
	value := op.Value.(V)
	if err := m.Put(&key, &value); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// differs reports whether a map has other rows than these; seen are the rows as read.
func differs[K, V comparable](m *ebpf.Map, seen, have map[K]V) (bool, error) {
	for key, row := range have {
		if found, ok := seen[key]; ok && found == row {
			continue
		}
		var now V
		if err := m.Lookup(key, &now); errors.Is(err, ebpf.ErrKeyNotExist) {
			return true, nil
		} else if err != nil {
			return false, fmt.Errorf("read map %s: %w", m, err)
		}
		if now != row {
			return true, nil
		}
	}
	return hasOthers(m, seen, have)
}

// hasOthers reports whether a map has rows that are not wanted.
func hasOthers[K, V comparable](m *ebpf.Map, seen, have map[K]V) (bool, error) {
	for key := range seen {
		if _, ok := have[key]; ok {
			continue
		}
		var now V
		err := m.Lookup(key, &now)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return false, fmt.Errorf("read map %s: %w", m, err)
		}
	}
	return false, nil
}

func sameKeys[K comparable, A, B any](a map[K]A, b map[K]B) bool {
	if len(a) != len(b) {
		return false
	}
	for key := range a {
		if _, ok := b[key]; !ok {
			return false
		}
	}
	return true
}
