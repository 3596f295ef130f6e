// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Flows stands for the two maps that account the flows of an interface: their values
// belong to the programs, their keys to us.
const flowTable = table[uint32, none]("flows")

var flowsTable = &descriptor{
	anyTable: flowAccounts{flowTable},
	encode: func(t *tables, p part) {
		for _, i := range p.Interfaces {
			flowTable.of(t)[uint32(i.Ifindex)] = none{}
		}
	},
}

type flowAccounts struct{ table[uint32, none] }

func (flowAccounts) read(r *Reader, t *tables) error {
	opened := map[uint32]uint32{}
	err := readMap(r.maps[openedMap], opened)
	for ifindex := range opened {
		flowTable.of(t)[ifindex] = none{}
	}
	return err
}

// survey reports whether other interfaces have accounts of flows than should. What
// these count belongs to the programs.
func (a flowAccounts) survey(d *Datapath) (harmed bool, err error) {
	return d.compare(func(have *tables) (bool, error) {
		now := newTables()
		err := a.read(d.reader, now)
		return !sameKeys(flowTable.of(now), flowTable.of(have)), err
	})
}

// step opens or closes an interface's account of flows. Closing it also
// forgets the flows, so that a later pod of the same address inherits none.
func (flowAccounts) step(d *Datapath, op operation) error {
	ifindex := op.Key.(uint32)
	accounts := []*ebpf.Map{d.objects.AliothConnEnded, d.objects.AliothConnOpened}
	if !op.Delete {
		for _, m := range accounts {
			if err := m.Update(ifindex, uint32(0), ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
				return fmt.Errorf("%s: %w", op, err)
			}
		}
		return nil
	}
	var opened uint32
	if err := d.objects.AliothConnOpened.Lookup(ifindex, &opened); err == nil && opened != 0 {
		if _, err := d.forgetFlows(func(f *flow) bool { return f.ifindex == ifindex }, d.forget); err != nil {
			return err
		}
	}
	for _, m := range accounts {
		if err := m.Delete(ifindex); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("%s: %w", op, err)
		}
	}
	return nil
}
