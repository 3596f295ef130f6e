// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import "fmt"

// Kinds of Repair.
const (
	// RepairDevice is a device, or one of its properties.
	RepairDevice = "device"
	// RepairAddress is an address of a device.
	RepairAddress = "address"
	// RepairRoute is a route.
	RepairRoute = "route"
	// RepairSetting is a kernel setting.
	RepairSetting = "setting"
)

// Repair is something that was not as Links or Apply had left it, and is again.
type Repair struct {
	Kind string
	// Detail is what it was, for a person.
	Detail string
}

// Repaired returns what was repaired since the last call.
func (h *Host) Repaired() []Repair {
	list := h.repaired
	h.repaired = nil
	return list
}

// note remembers a change that was necessary although nothing else is wanted
// than the last time.
func (h *Host) note(kind, format string, args ...any) {
	if h.settled {
		h.repaired = append(h.repaired, Repair{kind, fmt.Sprintf(format, args...)})
	}
}
