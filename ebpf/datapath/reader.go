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
func (r *Reader) Snapshot() (State, error) {
	t, err := r.tables()
	if err != nil {
		return State{}, err
	}
	return t.state(), nil
}

// HasAddress says whether an address of a VPC is in the maps.
func (r *Reader) HasAddress(vni uint32, ip netip.Addr) (bool, error) {
	var row aliothAddress
	err := r.maps[mapPrefix+string(tableAddresses)].Lookup(aliothAddressKey{Vni: vni, Ip: rawAddr(ip)}, &row)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up address %s of VNI %d: %w", ip, vni, err)
	}
	return true, nil
}

// tables reads every map that a State decides.
func (r *Reader) tables() (*tables, error) {
	t := newTables()
	opened := map[uint32]uint32{}
	err := errors.Join(
		readMap(r.maps["alioth_interfaces"], t.interfaces),
		readMap(r.maps["alioth_conn_opened"], opened),
		readMap(r.maps["alioth_addresses"], t.addresses),
		readMap(r.maps["alioth_subnets"], t.subnets),
		readMap(r.maps["alioth_vpc_ranges"], t.ranges),
		readMap(r.maps["alioth_vpcs"], t.vpcs),
		readMap(r.maps["alioth_nodes"], t.nodes),
		readMap(r.maps["alioth_closed"], t.closed),
		readMap(r.maps["alioth_services"], t.services),
		readMap(r.maps["alioth_backends"], t.backends),
		readMap(r.maps["alioth_choices"], t.choices),
		readMap(r.maps["alioth_maglev"], t.maglev),
		readMap(r.maps["alioth_targets"], t.targets),
		readMap(r.maps["alioth_netns"], t.namespaces),
	)
	if err != nil {
		return nil, err
	}
	for ifindex := range opened {
		t.flows[ifindex] = none{}
	}
	return t, nil
}

// readMap copies a map's rows.
func readMap[K comparable, V any](m *ebpf.Map, rows map[K]V) error {
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
