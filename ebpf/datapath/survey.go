// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf"
)

// Survey compares what maps and devices hold with what Apply has left in them, and
// reports whether anything is another. It changes nothing: Recheck lets the next Apply
// find the same, and repair it. Apply goes on beside it, and waits only while one
// table is compared.
func (d *Datapath) Survey() (harmed bool, err error) {
	d.beside.Lock()
	defer d.beside.Unlock()
	for _, table := range descriptors {
		if harmed, err = table.survey(d); harmed || err != nil {
			return harmed, err
		}
	}
	return false, nil
}

// survey reports whether a map has other rows than Apply has left there. What it has
// read may have been changed by Apply since: so what differs is looked at again.
func (n table[K, V]) survey(d *Datapath) (harmed bool, err error) {
	m := n.in(d.reader)
	if m.Type() != ebpf.Hash { // a trie answers for a key with what contains it; there are few rows
		return d.compare(func(have *tables) (bool, error) {
			seen := map[K]V{}
			err := readMap(m, seen)
			return !maps.Equal(seen, n.of(have)), err
		})
	}
	seen := map[K]V{}
	if err := readMap(m, seen); err != nil {
		return false, err
	}
	return d.compare(func(have *tables) (bool, error) { return differs(m, seen, n.of(have)) })
}

// compare asks a question about what Apply has left. While that is not known, the
// next Apply reads everything by itself.
func (d *Datapath) compare(differs func(have *tables) (bool, error)) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.have == nil {
		return false, nil
	}
	return differs(d.have)
}

// differs reports whether a map has other rows than these; seen is what was read of it.
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

// hasOthers reports whether a map has rows that it should not.
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
