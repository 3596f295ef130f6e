// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// Affinities stands for the maps of the affinities of clients, of VPCs and of networks
// outside. The programs fill them; a State decides which of these have one.
const affinityTable = table[uint32, none]("affinities")

var affinitiesTable = &descriptor{
	anyTable: affinityMaps{affinityTable},
	encode: func(t *Rows, p part) {
		for a := range p.virtual.All() {
			if a.HasAffinity() {
				affinityTable.of(t)[a.VNI] = none{}
				return
			}
		}
	},
}

type affinityMaps struct{ table[uint32, none] }

// step makes or removes the table of the affinities of a VPC's clients. The programs
// fill it, so an existing table is left as it is.
func (affinityMaps) step(k *Kernel, op Operation) error {
	m, vni := k.Maps[bpf.AffinitiesMap], op.Key.(uint32)
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
	spec, err := bpf.LoadAlioth()
	if err != nil {
		return fmt.Errorf("read compiled programs: %w", err)
	}
	fresh, err := ebpf.NewMap(spec.Maps[bpf.AffinitiesMap].InnerMap)
	if err != nil {
		return fmt.Errorf("make a table of affinities: %w", err)
	}
	defer fresh.Close() // the map of tables holds it
	if err := m.Put(vni, fresh); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

func (a affinityMaps) read(k *Kernel, t *Rows) error {
	ids := map[uint32]uint32{}
	err := bpf.ReadMap(a.in(k.Maps), ids)
	for vni := range ids {
		a.of(t)[vni] = none{}
	}
	return err
}

// survey reports whether the VPCs with tables of affinities are others than wanted.
func (a affinityMaps) survey(k *Kernel, compare Compare) (harmed bool, err error) {
	return compare(func(have *Rows) (bool, error) {
		now := &Rows{}
		err := a.read(k, now)
		return !sameKeys(a.of(now), a.of(have)), err
	})
}
