// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// ErrDiffers says that the kernel does not have what it should.
var ErrDiffers = errors.New("the datapath differs from what was programmed")

// Check looks into the kernel for what s has, which may be a part of a State,
// whatever else there is, and returns the first thing that is missing or
// different as an ErrDiffers. It changes nothing.
func (d *Datapath) Check(s state.State) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	have, err := d.readAll()
	if err != nil {
		return err
	}
	want := newTables()
	want.add(part{State: &s, have: have})
	for ifindex, row := range interfaceTable.of(want) {
		// Whether its VPC has services is not for a part of a State to say.
		const served = aliothInterfaceFlagINTERFACE_SERVICES
		row.Flags = row.Flags&^served | interfaceTable.of(have)[ifindex].Flags&served
		interfaceTable.of(want)[ifindex] = row
	}
	for _, op := range makePlan(have, want) {
		if op.Delete {
			continue
		}
		if a, ok := op.Key.(attachment); ok {
			return fmt.Errorf("%w: program %s is not on device %d", ErrDiffers, filterName(a.Program), a.Ifindex)
		}
		return fmt.Errorf("%w: map %s lacks the row of %v, or has another", ErrDiffers, mapOf(op.Table), op.Key)
	}
	return nil
}
