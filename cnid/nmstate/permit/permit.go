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
	// ErrClient: another program asks DHCP servers for addresses of the interface.
	ErrClient = errors.New("another DHCP client runs on the interface")
	// ErrInUse: something on the node needs what the change takes away.
	ErrInUse = errors.New("the interface is in use")
)

// Host answers the questions of the rules about a node.
type Host interface {
	// Manager returns the program that manages an interface, "" if none does.
	Manager(name string) (string, error)
	// Client returns the program that asks DHCP servers for an interface besides the engine,
	// "" if none does.
	Client(name string) (string, error)
	// Served returns why DHCP can't be turned on.
	Served() error
	// Resolver returns why the resolver's configuration can't be written.
	Resolver() error
	// Kept reports whether the committed state is applied at each boot.
	Kept() bool
	// Uses returns what on the node needs interfaces.
	Uses() []Use
}

// Rules decides about the steps of changes on a host.
type Rules struct{ Host }

// Steps returns why steps must not be carried out, all reasons at once, nil if they may.
func (r Rules) Steps(before *document.State, steps []plan.Step) error {
	planned := make([]change, 0, len(steps))
	for _, step := range steps {
		d, err := changeOf(step)
		if err != nil {
			return err
		}
		planned = append(planned, d)
	}
	node := newNode(before)
	errs := []error{r.managed(node, planned), r.asked(planned), r.resolver(planned)}
	// A long message is cut: what no setting permits comes first.
	if uses := r.Uses(); len(uses) > 0 {
		errs = append(errs, inUse(node, uses, planned))
	}
	if !r.Kept() {
		errs = append(errs, own(node, planned))
	}
	return errors.Join(errs...)
}

// managed refuses changes of interfaces that other programs manage.
func (r Rules) managed(node node, planned []change) error {
	var errs []error
	asked := map[string]bool{"": true}
	for _, d := range planned {
		for _, name := range d.managed() {
			// One that this change makes has no manager.
			if _, there := node.interfaces[name]; asked[name] || !there && name == d.controller {
				continue
			}
			asked[name] = true
			manager, err := r.Manager(name)
			if err == nil && manager != "" {
				err = fmt.Errorf("%w: %s by %s; configure it there, or release it from %s", ErrManaged, name, manager, manager)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// asked refuses DHCP on an interface where another program is a DHCP client, and DHCP that no
// client would run.
func (r Rules) asked(planned []change) error {
	var errs []error
	served := false
	for _, d := range planned {
		s, ok := d.step.(plan.SetAutomatic)
		if !ok || s.IP.DHCP == nil || !*s.IP.DHCP {
			continue
		}
		if !served {
			errs, served = append(errs, r.Served()), true
		}
		client, err := r.Client(s.Name)
		if err == nil && client != "" {
			err = fmt.Errorf(
				"%w: %s asks for %s; end it, and take %s out of its configuration, or leave dhcp out",
				ErrClient,
				client,
				s.Name,
				s.Name,
			)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// resolver refuses a change of the resolver's configuration that another program writes.
func (r Rules) resolver(planned []change) error {
	sets := func(d change) bool { _, is := d.step.(plan.SetResolver); return is }
	if !slices.ContainsFunc(planned, sets) {
		return nil
	}
	if err := r.Resolver(); err != nil {
		return fmt.Errorf("dns-resolver: %w", err)
	}
	return nil
}

// own refuses the first step that takes the node's own address or default route.
func own(node node, planned []change) error {
	uplinks := node.uplinks()
	for _, d := range planned {
		if d.takes() && (d.kind == disconnects && node.takesDefault(d) || slices.Contains(uplinks, d.name)) {
			return fmt.Errorf(
				"%w: %s; install the unit that applies the committed state at boot first: aliothctl state install",
				ErrNotKept,
				d.step,
			)
		}
	}
	return nil
}

// node is the network of a node as it is before a change.
type node struct {
	state      *document.State
	interfaces map[string]document.Interface
}

func newNode(before *document.State) node {
	n := node{state: before, interfaces: map[string]document.Interface{}}
	for _, i := range before.Interfaces {
		n.interfaces[i.Name] = i
	}
	return n
}

// uplinks are the interfaces of the node's default routes, with what they are made of.
func (n node) uplinks() []string {
	var names []string
	if n.state.Routes != nil {
		for _, route := range n.state.Routes.Running {
			if n.isOwnDefault(route) {
				names = append(names, route.Interface)
			}
		}
	}
	return n.below(names)
}

// isOwnDefault reports whether the node is reached by a route. Without the unit for boots the
// node starts without leases of the engine. Routes of other tables apply to some packets only.
func (n node) isOwnDefault(route document.Route) bool {
	table := route.Table == nil || *route.Table == 0 || *route.Table == document.MainTable
	return isDefault(route) && table && route.Interface != "" && !n.isOfLease(route)
}

// isOfLease reports whether a route came by a DHCP client of the engine: no other one runs for
// an interface that it serves.
func (n node) isOfLease(route document.Route) bool {
	i := n.interfaces[route.Interface]
	ip := i.IPv4
	if route.Destination == "::/0" {
		ip = i.IPv6
	}
	return route.Protocol == document.ProtocolDHCP && ip != nil && ip.DHCP != nil && *ip.DHCP
}

// takesDefault reports whether a step removes a default route of the node.
func (n node) takesDefault(d change) bool {
	removed, ok := d.step.(plan.RemoveRoute)
	return !ok || n.isOwnDefault(removed.Route) || removed.Route.Interface == ""
}

// below adds to names what those interfaces are made of: ports of a controller, and the
// interfaces below.
func (n node) below(names []string) []string {
	for at := 0; at < len(names); at++ {
		i := n.interfaces[names[at]]
		for _, below := range slices.Concat(i.Ports(), []string{i.Base()}) {
			if below != "" && !slices.Contains(names, below) {
				names = append(names, below)
			}
		}
	}
	return names
}
