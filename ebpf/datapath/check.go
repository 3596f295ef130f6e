// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/tables"
)

// ErrDiffers reports that the kernel's state differs from the wanted one.
var ErrDiffers = errors.New("the datapath differs from what was programmed")

// Check compares the kernel's state with s, which may be a part of a State; other
// content of the kernel does not matter. It returns the first missing or different row
// as an ErrDiffers. It changes nothing.
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
	return fmt.Errorf(
		"%w: map %s lacks the row of %v, or has another",
		ErrDiffers,
		tables.MapOf(missing.Table),
		missing.Key,
	)
}

// Survey compares the content of maps and devices with the result of Apply, and reports whether
// anything has changed. It changes nothing: after Recheck the next Apply finds the same
// differences, and repairs them. Apply runs beside it, and waits only while one table is
// compared.
func (d *Datapath) Survey() (harmed bool, err error) {
	d.beside.Lock()
	defer d.beside.Unlock()
	return d.kernel.Survey(d.compare)
}

// compare compares a part with the result of Apply. While the result is unknown, the next Apply
// reads everything anyway.
func (d *Datapath) compare(differs func(have *tables.Rows) (bool, error)) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.have == nil {
		return false, nil
	}
	return differs(d.have)
}
