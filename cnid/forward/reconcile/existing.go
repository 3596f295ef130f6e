// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// existing are the devices of records, by name. The monitor notices a manual deletion
// of a device, and requests a thorough pass: so as long as passes succeed, the devices
// are read again only then and for other records.
type existing struct {
	devices map[string]int
	records []journal.Record
}

func (e *existing) look(host Programmer, records []journal.Record, thorough bool) error {
	if e.devices != nil && journal.Same(e.records, records) && !thorough {
		return nil
	}
	names := make([]string, 0, len(records))
	for _, rec := range records {
		if rec.HostIfName != "" {
			names = append(names, rec.HostIfName)
		}
	}
	devices, err := host.Existing(names)
	if err != nil {
		return err
	}
	e.devices, e.records = devices, records
	return nil
}
