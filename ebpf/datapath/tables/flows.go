// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"
	"fmt"
	"maps"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// Flows stands for the maps that count the flows of an interface: two for flows to services, two
// for judged flows. The programs own the values, a State decides the keys. A row is true if the
// interface has all counters: an earlier release has left only the first two.
const flowTable = table[uint32, bool]("flows")

var flowsTable = &descriptor{
	anyTable: flowAccounts{flowTable},
	encode: func(t *Rows, p part) {
		for _, i := range p.Interfaces {
			flowTable.of(t)[uint32(i.Ifindex)] = true
		}
	},
}

type flowAccounts struct{ table[uint32, bool] }

func (flowAccounts) read(k *Kernel, t *Rows) error {
	opened, judged := map[uint32]uint32{}, map[uint32]uint32{}
	err := errors.Join(bpf.ReadMap(k.Maps[bpf.OpenedMap], opened), bpf.ReadMap(k.Maps[bpf.JudgedOpenedMap], judged))
	for ifindex := range opened {
		_, flowTable.of(t)[ifindex] = judged[ifindex]
	}
	return err
}

// survey reports whether the interfaces with counters of flows differ from the wanted interfaces.
// It compares no values, because the programs own them.
func (a flowAccounts) survey(k *Kernel, compare Compare) (harmed bool, err error) {
	return compare(func(have *Rows) (bool, error) {
		now := &Rows{}
		err := a.read(k, now)
		return !maps.Equal(flowTable.of(now), flowTable.of(have)), err
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
