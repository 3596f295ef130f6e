// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/tables"
)

// ErrDiffers says that the kernel does not have what it should.
var ErrDiffers = errors.New("the datapath differs from what was programmed")

// Check looks into the kernel for what s has, which may be a part of a State,
// whatever else there is, and returns the first thing that is missing or
// different as an ErrDiffers. It changes nothing.
func (d *Datapath) Check(s state.State) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	have, err := d.kernel.Read()
	if err != nil {
		return err
	}
	missing, any := have.Lacks(s)
	if !any {
		return nil
	}
	if a, ok := missing.Attachment(); ok {
		return fmt.Errorf("%w: program %s is not on device %d", ErrDiffers, a.Program.Kernel(), a.Ifindex)
	}
	return fmt.Errorf("%w: map %s lacks the row of %v, or has another", ErrDiffers, tables.MapOf(missing.Table), missing.Key)
}

// Survey compares what maps and devices hold with what Apply has left in them, and
// reports whether anything has changed. It changes nothing: Recheck lets the next Apply
// find the same, and repair it. Apply goes on beside it, and waits only while one
// table is compared.
func (d *Datapath) Survey() (harmed bool, err error) {
	d.beside.Lock()
	defer d.beside.Unlock()
	return d.kernel.Survey(d.compare)
}

// compare asks a question about what Apply has left. While that is not known, the
// next Apply reads everything by itself.
func (d *Datapath) compare(differs func(have *tables.Rows) (bool, error)) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.have == nil {
		return false, nil
	}
	return differs(d.have)
}
