// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf"
)

// stepAffinities opens or closes the table of the affinities of a VPC's clients. The
// programs fill it. One that is there stays as it is.
func (d *Datapath) stepAffinities(op operation) error {
	m, vni := d.objects.AliothAffinities, op.Key.(uint32)
	if op.Delete {
		if err := m.Delete(vni); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	}
	var id uint32
	if err := m.Lookup(vni, &id); err == nil || !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	spec, err := loadAlioth()
	if err != nil {
		return fmt.Errorf("read compiled programs: %w", err)
	}
	fresh, err := ebpf.NewMap(spec.Maps[affinitiesMap].InnerMap)
	if err != nil {
		return fmt.Errorf("make a table of affinities: %w", err)
	}
	defer fresh.Close() // the map of tables holds it
	if err := m.Put(vni, fresh); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// readAffinities adds the VPCs that have a table of affinities.
func (t *tables) readAffinities(m *ebpf.Map) error {
	ids := map[uint32]uint32{}
	err := readMap(m, ids)
	for vni := range maps.Keys(ids) {
		t.affinities[vni] = none{}
	}
	return err
}

// surveyAffinities reports whether other VPCs have tables of affinities than should.
func (d *Datapath) surveyAffinities() (harmed bool, err error) {
	return d.compare(func(have *tables) (bool, error) {
		now := newTables()
		err := now.readAffinities(d.objects.AliothAffinities)
		return !maps.Equal(now.affinities, have.affinities), err
	})
}
