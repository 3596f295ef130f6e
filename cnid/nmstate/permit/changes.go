// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"fmt"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// kind classifies the effect of a step on an interface, as far as rules tell the effects apart.
type kind int

const (
	// elsewhere: nothing that belongs to an interface.
	elsewhere kind = iota
	// creates: a new interface.
	creates
	// adds: to what the interface has or does.
	adds
	// changes: settings, the MTU among them.
	changes
	// removes: the interface.
	removes
	// stops: sets it down.
	stops
	// moves: makes it a port of another controller, or of none.
	moves
	// clears: one of its addresses, or all of IPv6.
	clears
	// divides: its virtual functions.
	divides
	// disconnects: the route to all that is not near.
	disconnects
)

// change describes the effect of a step.
type change struct {
	kind kind
	// name is the interface that it is done to, "" for none.
	name string
	// controller gets name as its port, "" for none.
	controller string
	step       plan.Step
}

// takes reports whether the interface has or does less afterwards.
func (d change) takes() bool { return d.kind >= changes }

// managed are the interfaces whose manager has to permit it. A new one has no manager.
func (d change) managed() []string {
	if d.kind == creates {
		return nil
	}
	return []string{d.name, d.controller}
}

// changeOf lists the changes of all steps. It refuses a step that is not in the list.
func changeOf(step plan.Step) (change, error) {
	d := change{step: step}
	switch s := step.(type) {
	case plan.Create:
		d.kind, d.name = creates, s.Interface.Name
	case plan.Delete:
		d.kind, d.name = removes, s.Name
	case plan.Change:
		d.kind, d.name = changes, s.Interface.Name
	case plan.Enslave:
		d.kind, d.name, d.controller = moves, s.Port, s.Controller
	case plan.PortChange:
		d.kind, d.name = adds, s.Bridge
	case plan.Unfilter:
		d.kind, d.name = changes, s.Bridge
	case plan.SetUp:
		d.kind, d.name = adds, s.Name
	case plan.SetDown:
		d.kind, d.name = stops, s.Name
	case plan.SetVFs:
		d.kind, d.name = divides, s.Name
	case plan.AddRoute, plan.AddRule, plan.RemoveRule, plan.SetResolver:
		d.kind = elsewhere
	default:
		return ofAddresses(d)
	}
	return d, nil
}

// ofAddresses completes the change of a step with addresses or routes.
func ofAddresses(d change) (change, error) {
	switch s := d.step.(type) {
	case plan.SetFamily:
		d.kind, d.name = adds, s.Name
		if !s.Enabled {
			d.kind = clears
		}
	case plan.SetForwarding:
		d.kind, d.name = adds, s.Name
	case plan.SetAutomatic:
		d.kind, d.name = adds, s.Name
		if off := s.IP.Autoconf; !s.IP.IsAutomatic() || off != nil && !*off {
			d.kind = clears
		}
	case plan.AddAddress:
		d.kind, d.name = adds, s.Name
	case plan.RemoveAddress:
		d.kind, d.name = clears, s.Name
	case plan.RemoveRoute:
		if isDefault(s.Route) {
			d.kind = disconnects
		}
	default:
		return d, fmt.Errorf("%s: no rule says whether steps of type %T are permitted", d.step, d.step)
	}
	return d, nil
}

func isDefault(route document.Route) bool {
	return route.Destination == "0.0.0.0/0" || route.Destination == "::/0"
}
