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
	for _, survey := range surveys {
		if harmed, err = survey(d); harmed || err != nil {
			return harmed, err
		}
	}
	return false, nil
}

// surveys look at one table each.
var surveys = []func(*Datapath) (bool, error){
	(*Datapath).surveyHooks,
	(*Datapath).surveyFlows,
	(*Datapath).surveyAffinities,
	surveyOf(tableInterfaces, func(t *tables) map[uint32]aliothInterface { return t.interfaces }),
	surveyOf(tableAddresses, func(t *tables) map[aliothAddressKey]aliothAddress { return t.addresses }),
	surveyOf(tableSubnets, func(t *tables) map[aliothPrefixKey]uint32 { return t.subnets }),
	surveyOf(tableRanges, func(t *tables) map[aliothPrefixKey]uint32 { return t.ranges }),
	surveyOf(tableVPCs, func(t *tables) map[uint32]aliothVpc { return t.vpcs }),
	surveyOf(tableNodes, func(t *tables) map[aliothAddr]uint32 { return t.nodes }),
	surveyOf(tableNodePorts, func(t *tables) map[aliothNodePort]uint32 { return t.nodePorts }),
	surveyOf(tableAnnounced, func(t *tables) map[aliothAddr]uint32 { return t.announced }),
	surveyOf(tableClosed, func(t *tables) map[aliothPrefixKey]aliothClosed { return t.closed }),
	surveyOf(tableServices, func(t *tables) map[aliothServiceKey]aliothService { return t.services }),
	surveyOf(tableBackends, func(t *tables) map[aliothBackendKey]aliothBackend { return t.backends }),
	surveyOf(tableChoices, func(t *tables) map[uint32]aliothChoice { return t.choices }),
	surveyOf(tableMaglev, func(t *tables) map[aliothMaglevKey]aliothMaglev { return t.maglev }),
	surveyOf(tableTargets, func(t *tables) map[aliothTargetKey]aliothAddr { return t.targets }),
	surveyOf(tableNamespaces, func(t *tables) map[uint64]aliothNetns { return t.namespaces }),
}

func surveyOf[K, V comparable](name table, rows func(*tables) map[K]V) func(*Datapath) (bool, error) {
	return func(d *Datapath) (bool, error) { return surveyMap(d, name, rows) }
}

// surveyMap reports whether a map has other rows than Apply has left there. What it has
// read may have been changed by Apply since: so what differs is looked at again.
func surveyMap[K, V comparable](d *Datapath, name table, rows func(*tables) map[K]V) (harmed bool, err error) {
	m := d.reader.maps[mapPrefix+string(name)]
	if m.Type() != ebpf.Hash { // a trie answers for a key with what contains it; there are few rows
		return d.compare(func(have *tables) (bool, error) {
			seen := map[K]V{}
			err := readMap(m, seen)
			return !maps.Equal(seen, rows(have)), err
		})
	}
	seen := map[K]V{}
	if err := readMap(m, seen); err != nil {
		return false, err
	}
	return d.compare(func(have *tables) (bool, error) { return differs(m, seen, rows(have)) })
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

// surveyFlows reports whether other interfaces have accounts of flows than should. What
// these count belongs to the programs.
func (d *Datapath) surveyFlows() (harmed bool, err error) {
	return d.compare(func(have *tables) (bool, error) {
		opened := map[uint32]uint32{}
		if err := readMap(d.objects.AliothConnOpened, opened); err != nil {
			return false, err
		}
		return !sameKeys(opened, have.flows), nil
	})
}

// surveyHooks reports whether interfaces have other programs than they should.
func (d *Datapath) surveyHooks() (harmed bool, err error) {
	seen, err := d.filters.attached()
	if err != nil {
		return false, err
	}
	return d.compare(func(have *tables) (bool, error) {
		if sameKeys(seen, have.attachments) {
			return false, nil
		}
		now, err := d.filters.attached()
		return !sameKeys(now, have.attachments), err
	})
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
