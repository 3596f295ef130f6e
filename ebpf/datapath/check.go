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
