// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// cycle repeats the effect of a VRF on an interface that joins or leaves it: an interface that is
// up loses its IPv6 addresses and its routes.
func (m *model) cycle(l *link) {
	if l.up {
		l.v6 = nil
		m.dropRoutes(func(r document.Route) bool { return r.Interface == l.Name })
	}
}

func (m *model) release(l, controller *link) {
	l.controller, l.port = "", document.BridgePort{}
	switch controller.Type {
	case document.Bond:
		m.setDown(l)
		m.resize(l, 1500)
	case document.VRFType:
		m.cycle(l)
	default:
		m.autoMTU(controller)
	}
}

func (m *model) changePort(s plan.PortChange) error {
	l := m.links[s.Port.Name]
	if l == nil || l.controller != s.Bridge {
		return fmt.Errorf("%s: it is no port", s)
	}
	if s.Port.Hairpin != nil {
		l.port.Hairpin = s.Port.Hairpin
	}
	if s.Port.PathCost != nil {
		l.port.PathCost = s.Port.PathCost
	}
	if s.Port.Priority != nil {
		l.port.Priority = s.Port.Priority
	}
	if s.Port.VLAN != nil {
		if l.port.VLAN = s.Port.VLAN; s.Port.VLAN.Mode == "" {
			l.port.VLAN = nil
		} else {
			m.links[s.Bridge].filters = true
		}
	}
	return nil
}
