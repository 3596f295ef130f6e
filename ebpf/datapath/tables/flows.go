// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"fmt"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// Flows stands for the two maps that count the flows of an interface. The programs own
// the values, a State decides the keys.
const flowTable = table[uint32, none]("flows")

var flowsTable = &descriptor{
	anyTable: flowAccounts{flowTable},
	encode: func(t *Rows, p part) {
		for _, i := range p.Interfaces {
			flowTable.of(t)[uint32(i.Ifindex)] = none{}
		}
	},
}

type flowAccounts struct{ table[uint32, none] }

func (flowAccounts) read(k *Kernel, t *Rows) error {
	opened := map[uint32]uint32{}
	err := bpf.ReadMap(k.Maps[bpf.OpenedMap], opened)
	for ifindex := range opened {
		flowTable.of(t)[ifindex] = none{}
	}
	return err
}

// survey reports whether the interfaces with counters of flows differ from the wanted interfaces.
// It compares no values, because the programs own them.
func (a flowAccounts) survey(k *Kernel, compare Compare) (harmed bool, err error) {
	return compare(func(have *Rows) (bool, error) {
		now := &Rows{}
		err := a.read(k, now)
		return !sameKeys(flowTable.of(now), flowTable.of(have)), err
	})
}

// step makes or removes an interface's counters of flows. Removal also deletes the
// flows, so that a later pod of the same address inherits none.
func (flowAccounts) step(k *Kernel, op Operation) error {
	change := k.Flows.Open
	if op.Delete {
		change = k.Flows.End
	}
	if err := change(op.Key.(uint32)); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}
