// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package permit tells which changes of a node's network must not be made.
package permit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// Errors that callers tell apart.
var (
	// ErrManaged: another program manages the interface.
	ErrManaged = errors.New("another program manages the interface")
	// ErrNotKept: the change would be gone after a boot, and the node unreachable.
	ErrNotKept = errors.New("the node's own address or default route would not survive a boot")
)

// Rules is what Steps needs to know of a node.
type Rules struct {
	// Manager returns the program that manages an interface, "" if none does.
	Manager func(name string) (string, error)
	// Kept reports whether the committed state is applied at each boot.
	Kept func() bool
}

// Steps returns why steps must not be carried out, all reasons at once, nil if they may.
func (r Rules) Steps(before *document.State, steps []plan.Step) error {
	var errs []error
	for _, name := range interfacesOf(steps) {
		manager, err := r.Manager(name)
		if err == nil && manager != "" {
			err = fmt.Errorf("%w: %s by %s; configure it there, or release it from %s", ErrManaged, name, manager, manager)
		}
		errs = append(errs, err)
	}
	if !r.Kept() {
		errs = append(errs, own(before, steps))
	}
	return errors.Join(errs...)
}

// own refuses the first step that takes the node's own address or default route.
func own(before *document.State, steps []plan.Step) error {
	carriers := uplinks(before)
	for _, step := range steps {
		if takes(step, carriers) {
			return fmt.Errorf("%w: %s; install the unit that applies the committed state at boot first: aliothctl state install", ErrNotKept, step)
		}
	}
	return nil
}

// uplinks are the interfaces of default routes, with what they are made of: ports of a
// controller, and the interfaces below.
func uplinks(before *document.State) []string {
	var names []string
	if before.Routes != nil {
		for _, route := range before.Routes.Running {
			if isDefault(route) && route.Interface != "" {
				names = append(names, route.Interface)
			}
		}
	}
	byName := map[string]document.Interface{}
	for _, i := range before.Interfaces {
		byName[i.Name] = i
	}
	for at := 0; at < len(names); at++ {
		i := byName[names[at]]
		for _, below := range append(i.Ports(), i.Base()) {
			if below != "" && !slices.Contains(names, below) {
				names = append(names, below)
			}
		}
	}
	return names
}

func isDefault(route document.Route) bool {
	return route.Destination == "0.0.0.0/0" || route.Destination == "::/0"
}

// takes reports whether a step changes an uplink other than by adding to it.
func takes(step plan.Step, uplinks []string) bool {
	on := func(name string) bool { return slices.Contains(uplinks, name) }
	switch s := step.(type) {
	case plan.Delete:
		return on(s.Name)
	case plan.SetDown:
		return on(s.Name)
	case plan.Change:
		return on(s.Interface.Name)
	case plan.Enslave:
		return on(s.Port)
	case plan.SetFamily:
		return on(s.Name) && !s.Enabled
	case plan.RemoveAddress:
		return on(s.Name)
	case plan.RemoveRoute:
		return isDefault(s.Route)
	case plan.SetVFs:
		return on(s.Name)
	default:
		return false
	}
}

// interfacesOf are the interfaces that steps change, each once. A new one has no manager.
func interfacesOf(steps []plan.Step) []string {
	var names []string
	for _, step := range steps {
		name := ""
		switch s := step.(type) {
		case plan.Delete:
			name = s.Name
		case plan.Change:
			name = s.Interface.Name
		case plan.Enslave:
			name = s.Port
		case plan.PortChange:
			name = s.Bridge
		case plan.SetUp:
			name = s.Name
		case plan.SetDown:
			name = s.Name
		case plan.SetFamily:
			name = s.Name
		case plan.AddAddress:
			name = s.Name
		case plan.RemoveAddress:
			name = s.Name
		case plan.SetVFs:
			name = s.Name
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
