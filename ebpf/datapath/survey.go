// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/alioth-net/alioth/ebpf/datapath/tables"
)

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
