// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Reader looks at a datapath without changing it.
type Reader struct {
	maps map[string]*ebpf.Map
}

func newReader(maps map[string]*ebpf.Map) *Reader { return &Reader{maps: maps} }

// OpenReader opens the maps that a datapath has pinned, for reading. The error
// wraps os.ErrNotExist when there is none in pinDir.
func OpenReader(pinDir string) (*Reader, error) {
	r := newReader(map[string]*ebpf.Map{})
	for name := range byName(&aliothObjects{}) {
		m, err := ebpf.LoadPinnedMap(filepath.Join(pinDir, name), &ebpf.LoadPinOptions{ReadOnly: true})
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("open pinned map %s: %w", name, err)
		}
		r.maps[name] = m
	}
	spec, err := loadAlioth()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("read compiled programs: %w", err)
	}
	for name, m := range r.maps {
		// The maps are opened read-only, which alone makes no difference.
		if ms := spec.Maps[name]; ms.KeySize != m.KeySize() || ms.ValueSize != m.ValueSize() {
			r.Close()
			return nil, fmt.Errorf("read pinned map %s: written by another version", name)
		}
	}
	return r, nil
}

// Close releases the maps.
func (r *Reader) Close() error {
	var errs []error
	for m := range maps.Values(r.maps) {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// Snapshot reads the state back from the maps, in canonical order: addresses
// unmapped, prefixes masked, every list sorted by its keys.
func (r *Reader) Snapshot() (state.State, error) {
	t, err := r.tables()
	if err != nil {
		return state.State{}, err
	}
	return t.state(), nil
}

// HasAddress reports whether an address of a VPC is in the maps.
func (r *Reader) HasAddress(vni uint32, ip netip.Addr) (bool, error) {
	var row aliothAddress
	err := addressTable.in(r).Lookup(aliothAddressKey{Vni: vni, Ip: encodeAddr(ip)}, &row)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up address %s of VNI %d: %w", ip, vni, err)
	}
	return true, nil
}

// Backends returns those of a port of a virtual address, in the order of their
// slots; none where there is no such port, and not all while they change.
func (r *Reader) Backends(vni uint32, vip netip.Addr, port uint16, proto uint8) ([]state.Backend, error) {
	var row aliothService
	key := serviceKey(state.Service{VNI: vni, VIP: vip, Port: port, Proto: proto})
	err := serviceTable.in(r).Lookup(key, &row)
	var list []state.Backend
	for slot := uint32(0); err == nil && slot < row.Backends; slot++ {
		var b aliothBackend
		if err = backendTable.in(r).Lookup(aliothBackendKey{Service: row.Id, Slot: slot}, &b); err == nil {
			list = append(list, decodeBackend(b))
		}
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, fmt.Errorf("look up the backends of %s port %d of VNI %d: %w", vip, port, vni, err)
	}
	return list, nil
}

// ServiceMemory returns how many bytes of the kernel's memory the maps of services
// take, and false where the kernel does not say.
func (r *Reader) ServiceMemory() (bytes uint64, known bool, err error) {
	for _, t := range []*descriptor{servicesTable, backendsTable, choicesTable, lookupsTable} {
		info, err := r.maps[mapOf(t.name())].Info()
		if err != nil {
			return 0, false, fmt.Errorf("read about map %s: %w", t.name(), err)
		}
		taken, ok := info.Memlock()
		if !ok {
			return 0, false, nil
		}
		bytes += taken
	}
	return bytes, true, nil
}

// tables reads every map that a State decides.
func (r *Reader) tables() (*tables, error) {
	t := newTables()
	for _, d := range descriptors {
		if err := d.read(r, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// batch is how many rows are read at once.
const batch = 1024

// readMap copies a map's rows.
func readMap[K comparable, V any](m *ebpf.Map, rows map[K]V) error {
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
