// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
)

// foreign are the interfaces of a desired state that other programs manage. The zero value means
// that all interfaces are free.
type foreign struct {
	// reason is the reason of the condition, by the program of the first interface, and names
	// lists the interfaces with their programs.
	reason, names string
}

// and returns the interfaces of two parts together.
func (f foreign) and(other foreign) foreign {
	if f == (foreign{}) || other == (foreign{}) {
		return foreign{f.reason + other.reason, f.names + other.names}
	}
	return foreign{firstReason(f.reason, other.reason), f.names + ", " + other.names}
}

// message returns the message of the condition.
func (f foreign) message() string {
	return fmt.Sprintf(
		"left as they are, because another program manages them: %s; configure them there, or release them from it",
		f.names,
	)
}

// leaveOut takes out of a document the interfaces that other programs manage, with their
// routes: what the engine does to them, the other program would undo.
func leaveOut(d *document.State, manager func(name string) (string, error)) (f foreign, err error) {
	programs := map[string]string{}
	var names []string
	for _, i := range d.Interfaces {
		if i.State == document.Ignore {
			continue
		}
		program, err := manager(i.Name)
		if err != nil {
			return f, err
		}
		if program != "" {
			programs[i.Name] = program
			names = append(names, fmt.Sprintf("%s (%s)", i.Name, program))
			f.reason = firstReason(f.reason, program)
		}
	}
	if len(names) == 0 {
		return f, nil
	}
	f.names = strings.Join(names, ", ")
	d.Interfaces = slices.DeleteFunc(d.Interfaces, func(i document.Interface) bool { return programs[i.Name] != "" })
	if d.Routes != nil {
		d.Routes.Config = slices.DeleteFunc(
			d.Routes.Config,
			func(r document.Route) bool { return programs[r.Interface] != "" },
		)
	}
	return f, nil
}

// firstReason returns the given reason, or without one the reason for a program, as package
// managers names it.
func firstReason(reason, program string) string {
	switch {
	case reason != "":
		return reason
	case program == nmstatev1.NetworkManagerReason:
		return nmstatev1.NetworkManagerReason
	default:
		return nmstatev1.NetworkdReason
	}
}
