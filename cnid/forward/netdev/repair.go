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

// Repair is a restored object that had changed since the last Links or Apply.
type Repair struct {
	Kind string
	// Detail describes the change as text.
	Detail string
}

// Repaired returns the repairs since the last call.
func (h *Host) Repaired() []Repair {
	list := h.repaired
	h.repaired = nil
	return list
}

// note records a change that was necessary although the desired state is the same as
// the last time.
func (h *Host) note(kind, format string, args ...any) {
	if h.settled {
		h.repaired = append(h.repaired, Repair{kind, fmt.Sprintf(format, args...)})
	}
}
