// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package target resolves a desired state document against the present state: it returns the
// complete wanted state of the host, or the errors of the document. Its functions compute, and
// have no effects. The semantics follow nmstate.
package target

import (
	"errors"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/target/check"
)

// Target holds the complete desired state of all interfaces that a desired document changes,
// and all routes and rules of the host.
type Target struct {
	// Document is the desired state, with values instead of references to them.
	Document *document.State
	// Interfaces are those that change, sorted by name. Each is complete: it has its current
	// fields with the desired ones merged over them. State is Up, Down or Absent. A virtual
	// one that is Down exists, and is not active; one that is Absent does not exist. A
	// physical one that is Absent is down. Fields that are nil are left as they are.
	Interfaces []document.Interface
	// Routes are all that shall be in the configuration, normalized where they are new.
	Routes []document.Route
	// Rules are all that shall be, as Routes.
	Rules []document.RouteRule
	// Resolver replaces the resolver's configuration; nil leaves it.
	Resolver *document.Resolver
	// Unfiltered are the bridges that must not filter VLANs.
	Unfiltered []string
}

// maxInterfaces is how many interfaces a desired state may name (a limit of nmstate).
const maxInterfaces = 1000

// Resolve merges a desired state over the current one, as package kernel shows it. The
// error has all that is wrong with the desired state, with the paths of the fields.
func Resolve(desired, current *document.State) (*Target, error) {
	r := newResolution(desired, current)
	desired = r.resolved(desired, current)
	r.name(desired.Interfaces)
	for _, name := range r.order {
		r.Values(r.path[name], r.desired[name])
	}
	r.mergeAll()
	r.pairs()
	r.ports()
	r.removals()
	r.stripPorts()
	r.followers()
	r.rebuildLists()
	r.stripPorts()
	r.checkAll()
	t := &Target{Document: desired, Interfaces: r.list()}
	t.Routes = r.routes(desired.Routes, current.Routes)
	t.Rules = r.rules(desired.RouteRules, current.RouteRules)
	t.Resolver = r.resolver(desired.DNS, current.DNS)
	t.Unfiltered = r.unfiltered()
	if err := errors.Join(r.Problems...); err != nil {
		return nil, err
	}
	return t, nil
}

// resolution is a desired state on the way to a target.
type resolution struct {
	check.Problems
	current map[string]document.Interface
	// desired are the interfaces that the document names and does not ignore, order their
	// names as they come, and path where they are in it.
	desired map[string]document.Interface
	order   []string
	path    map[string]string
	// final are the interfaces that change, and invalid the interfaces whose merge failed.
	// Interfaces that depend on invalid ones give no further errors.
	final   map[string]*document.Interface
	invalid map[string]bool
	// above are the current interfaces that are derived from one.
	above map[string][]string
	// claims holds the controllers that the document names for ports, by name of the port.
	claims map[string]claim
	// moreVFs: interfaces may appear that are not there yet.
	moreVFs bool
}

func newResolution(desired, current *document.State) *resolution {
	r := &resolution{
		current: map[string]document.Interface{}, desired: map[string]document.Interface{}, path: map[string]string{},
		final: map[string]*document.Interface{}, invalid: map[string]bool{}, above: map[string][]string{},
	}
	for _, i := range current.Interfaces {
		r.current[i.Name] = i
		if base := i.Base(); base != "" {
			r.above[base] = append(r.above[base], i.Name)
		}
	}
	for _, i := range desired.Interfaces {
		r.moreVFs = r.moreVFs || vfsOf(i) > vfsOf(r.current[i.Name])
	}
	return r
}

func vfsOf(i document.Interface) int {
	if i.Ethernet == nil || i.Ethernet.SRIOV == nil || i.Ethernet.SRIOV.TotalVFs == nil {
		return 0
	}
	return *i.Ethernet.SRIOV.TotalVFs
}

// get returns an interface as it shall be.
func (r *resolution) get(name string) (document.Interface, bool) {
	if i, ok := r.final[name]; ok {
		return *i, true
	}
	i, ok := r.current[name]
	return i, ok
}

// gone: a physical interface that is absent is still there.
func gone(i document.Interface) bool { return i.State == document.Absent && !compare.Physical(i.Type) }

// touch makes an interface part of the target, in its state so far. The caller must not change
// values behind its pointers. It returns nil for an unknown interface.
func (r *resolution) touch(name string) *document.Interface {
	if i, ok := r.final[name]; ok {
		return i
	}
	i, ok := r.current[name]
	if !ok {
		return nil
	}
	if i.State != document.Down {
		i.State = document.Up
	}
	r.final[name] = &i
	return &i
}

// at returns the path of an interface in the desired state.
func (r *resolution) at(name string) string {
	if path, ok := r.path[name]; ok {
		return path
	}
	return "interface " + name
}

// wanted reports whether the document asks for an interface to be up.
func (r *resolution) wanted(name string) bool {
	i, ok := r.desired[name]
	return ok && i.State == document.Up
}

func (r *resolution) names() []string {
	var names []string
	for name := range r.final {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r *resolution) list() []document.Interface {
	var list []document.Interface
	for _, name := range r.names() {
		list = append(list, *r.final[name])
	}
	return list
}

// Back returns the target that restores a state that was: interfaces that it does not have
// are absent. It restores those interfaces alone that names has, and all routes and rules.
func Back(before *document.State, names []string) *Target {
	t := &Target{}
	for _, name := range names {
		at := slices.IndexFunc(before.Interfaces, func(i document.Interface) bool { return i.Name == name })
		if at < 0 {
			t.Interfaces = append(t.Interfaces, document.Interface{Name: name, State: document.Absent})
			continue
		}
		if b := before.Interfaces[at].Bridge; b != nil && len(b.Ports) > 0 && !compare.FiltersVLANs(b) {
			t.Unfiltered = append(t.Unfiltered, name)
		}
		t.Interfaces = append(t.Interfaces, explicit(before.Interfaces[at]))
	}
	slices.SortFunc(t.Interfaces, func(a, b document.Interface) int { return strings.Compare(a.Name, b.Name) })
	if before.Routes != nil {
		t.Routes = before.Routes.Config
	}
	if before.RouteRules != nil {
		t.Rules = before.RouteRules.Config
	}
	if before.DNS != nil {
		t.Resolver = before.DNS.Config
	}
	return t
}

// explicit says of an interface that was what it did not have, so that it is taken away
// where it was added meanwhile.
func explicit(i document.Interface) document.Interface {
	if i.State != document.Down {
		i.State = document.Up
	}
	i.Description, i.Controller = orNew(i.Description), orNew(i.Controller)
	i.AcceptAllMACAddresses = orNew(i.AcceptAllMACAddresses)
	i.IPv4, i.IPv6 = withList(i.IPv4), withList(i.IPv6)
	if i.Bridge != nil {
		bridge := *i.Bridge
		bridge.Ports = slices.Clone(bridge.Ports)
		for n, port := range bridge.Ports {
			bridge.Ports[n].VLAN = orNew(port.VLAN)
		}
		i.Bridge = &bridge
	}
	return i
}

func orNew[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}

// withList returns settings of a family with a list of addresses, though an empty one.
func withList(ip *document.IP) *document.IP {
	copied := *orNew(ip)
	if copied.Addresses == nil {
		copied.Addresses = []document.Address{}
	}
	return &copied
}
