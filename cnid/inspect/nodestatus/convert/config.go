// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// vlanOf returns the ID of the VLAN link below an interface. deviceSettings has the ID of a device.
func vlanOf(c netif.Config) uint32 {
	if c.Pool != "" {
		return 0
	}
	return c.VLAN
}

// deviceSettings returns the settings of a device of a pool, nil for other interfaces.
func deviceSettings(c netif.Config) *nodestatus.VF {
	return (*nodestatus.VF)(journal.DeviceSettingsOf(c))
}

// configOf converts the settings of an attachment back.
func configOf(a nodestatus.Attachment) netif.Config {
	c := a.Config
	c.MTU, c.VLAN = a.MTU, a.VLAN
	c.Routes = each(a.Routes, func(r nodestatus.Route) netif.Route { return netif.Route(r) })
	if a.VF != nil {
		c.VLAN, c.VF = a.VF.VLAN, (*journal.DeviceSettings)(a.VF).VF()
	}
	return c
}
