// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/cilium/ebpf"
)

// Prefix starts the name of every map that is pinned, and of every program.
const Prefix = "alioth_"

// Names of maps.
const (
	// LayoutMap holds the version of the meaning of all others.
	LayoutMap = "alioth_layout"
	// ConnectionsMap has the flows to services; its size is configurable.
	ConnectionsMap = "alioth_connections"
	// OpenedMap counts the flows that interfaces have opened, and endedMap the flows that have
	// ended.
	OpenedMap = "alioth_conn_opened"
	EndedMap  = "alioth_conn_ended"
	// JudgedMap has the flows that network policies allow. JudgedOpenedMap counts the flows that
	// interfaces have opened, and judgedEndedMap the flows that have ended.
	JudgedMap       = "alioth_judged"
	JudgedOpenedMap = "alioth_judged_opened"
	JudgedEndedMap  = "alioth_judged_ended"
	// PolicyHitsMap counts packets and flows by the rule that decided.
	PolicyHitsMap = "alioth_policy_hits"
	// AffinitiesMap has the backends of clients with affinity.
	AffinitiesMap = "alioth_affinities"
	// FragmentsMap has the first fragments that later ones follow.
	FragmentsMap = "alioth_fragments"
	// CountersMap counts packets by reason, dropCountersMap drops by interface and VPC.
	CountersMap     = "alioth_counters"
	DropCountersMap = "alioth_drop_counters"
	// DropsMap and flowsMap are the rings of events.
	DropsMap = "alioth_drops"
	FlowsMap = "alioth_flows"
	// FlowNotesMap is a work area of the programs.
	FlowNotesMap = "alioth_flow_notes"
	// WaysMap has the results of recent lookups in the host's routes.
	WaysMap = "alioth_ways"
	// CachedMap has the rows of single addresses, MissesMap is the ring of addresses
	// without a row.
	CachedMap = "alioth_cached"
	MissesMap = "alioth_misses"
	// InterfacesMap and vpcsMap are tables that a State decides, see package tables.
	InterfacesMap = "alioth_interfaces"
	VpcsMap       = "alioth_vpcs"
)

// Maps are the maps of a datapath by the names under which they are pinned.
type Maps map[string]*ebpf.Map

// Pinnable returns the maps of loaded programs that are pinned.
func Pinnable(o *AliothObjects) Maps {
	list := Maps{}
	all := reflect.ValueOf(o.AliothMaps)
	for i := range all.NumField() {
		name := all.Type().Field(i).Tag.Get("ebpf")
		if strings.HasPrefix(name, Prefix) {
			list[name] = all.Field(i).Interface().(*ebpf.Map)
		}
	}
	return list
}

// OpenPinned opens the maps that a datapath has pinned in dir, for reading. The error wraps
// os.ErrNotExist for a directory without maps.
func OpenPinned(dir string) (Maps, error) {
	found := Maps{}
	for name := range Pinnable(&AliothObjects{}) {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), &ebpf.LoadPinOptions{ReadOnly: true})
		if err != nil {
			found.Close()
			return nil, fmt.Errorf("open pinned map %s: %w", name, err)
		}
		found[name] = m
	}
	if err := found.checkSizes(); err != nil {
		found.Close()
		return nil, err
	}
	return found, nil
}

// checkSizes reports maps of another version as an error, even though they are opened
// read-only.
func (m Maps) checkSizes() error {
	spec, err := LoadAlioth()
	if err != nil {
		return fmt.Errorf("read compiled programs: %w", err)
	}
	for name, found := range m {
		if ms := spec.Maps[name]; ms.KeySize != found.KeySize() || ms.ValueSize != found.ValueSize() {
			return fmt.Errorf("read pinned map %s: written by another version", name)
		}
	}
	return nil
}

// Close releases the maps.
func (m Maps) Close() error {
	var errs []error
	for _, held := range m {
		errs = append(errs, held.Close())
	}
	return errors.Join(errs...)
}

// batch is how many rows are read at once.
const batch = 1024

// ReadMap copies a map's rows.
func ReadMap[K comparable, V any](m *ebpf.Map, rows map[K]V) error {
	if m.Type() == ebpf.Hash {
		return readHash(m, rows)
	}
	var (
		key   K
		value V
	)
	iter := m.Iterate()
	for iter.Next(&key, &value) {
		rows[key] = value
	}
	if err := iter.Err(); err != nil {
		return fmt.Errorf("read map %s: %w", m, err)
	}
	return nil
}

// readHash copies the rows of a hash table, many at once: there may be tens of
// thousands.
func readHash[K comparable, V any](m *ebpf.Map, rows map[K]V) error {
	var cursor ebpf.MapBatchCursor
	keys, values := make([]K, batch), make([]V, batch)
	for {
		count, err := m.BatchLookup(&cursor, keys, values, nil)
		end := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !end {
			return fmt.Errorf("read map %s: %w", m, err)
		}
		for i, key := range keys[:count] {
			rows[key] = values[i]
		}
		if end {
			return nil
		}
	}
}

// Empty deletes every row of a map that no other process writes.
func Empty(m *ebpf.Map) error {
	key, err := m.NextKeyBytes(nil)
	for err == nil && key != nil {
		// From an existing row the kernel finds the next one without a search.
		next, err := m.NextKeyBytes(key)
		if err != nil {
			return err
		}
		if err := m.Delete(key); err != nil {
			return err
		}
		key = next
	}
	return err
}
