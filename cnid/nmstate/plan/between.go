// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan computes the changes between two states of a host's network, in the kernel's order.
// Its functions have no effects.
package plan

import (
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// Between returns the steps from one state of the host to a target. current is complete, as
// package kernel shows it. Equal states give no steps.
func Between(current *document.State, t *target.Target) []Step {
	p := newPlanner(current, t)
	p.removeRules()
	p.removeRoutes()
	p.dropAltNames()
	p.detach()
	p.deleteInterfaces()
	p.setVFs()
	// A new interface gets its MTU from its base, which has its own by then.
	p.lowerMTUs()
	p.change(beforePorts)
	p.create()
	p.change(beforePorts)
	p.enslave()
	p.change(afterPorts)
	p.changePorts()
	p.unfilter(current, t.Unfiltered)
	p.activate()
	p.setFamilies()
	p.setForwarding()
	p.stopAutomatic()
	p.setAddresses()
	p.startAutomatic()
	p.addRoutes()
	p.addRules()
	p.setResolver(current, t)
	return p.steps
}

// planner keeps the state of the host after the steps so far. Where the kernel's behaviour
// depends on unknown facts, the planner assumes that a setting is lost: a step that sets a
// present value again succeeds.
type planner struct {
	// now are the interfaces that are, and want those that shall be.
	now, want map[string]*document.Interface
	// dirty are the interfaces that may be other than they shall be.
	dirty map[string]bool
	// derived are the names of the interfaces on top of one.
	derived map[string][]string
	// order has controllers before their ports, and bases before their derived interfaces.
	order []string
	// routes and rules are those that are, by their words; routeOrder are the words of the
	// routes as they come.
	routes     map[string]document.Route
	rules      map[string]document.RouteRule
	routeOrder []string
	wantRoutes []document.Route
	wantRules  []document.RouteRule
	// enslaved are the interfaces that became ports by a step.
	enslaved map[string]bool
	steps    []Step
}

func newPlanner(current *document.State, t *target.Target) *planner {
	p := &planner{
		now: map[string]*document.Interface{}, want: map[string]*document.Interface{}, dirty: map[string]bool{},
		derived: map[string][]string{}, routes: map[string]document.Route{}, rules: map[string]document.RouteRule{},
		wantRoutes: t.Routes, wantRules: t.Rules, enslaved: map[string]bool{},
	}
	for _, i := range current.Interfaces {
		p.now[i.Name], p.want[i.Name] = new(i), new(i)
	}
	p.take(t.Interfaces)
	p.wantListedPorts(t.Interfaces)
	p.forgetMACsOfPorts()
	if current.Routes != nil {
		for _, route := range current.Routes.Config {
			p.routes[routeWords(route)] = route
			p.routeOrder = append(p.routeOrder, routeWords(route))
		}
	}
	if current.RouteRules != nil {
		for _, rule := range current.RouteRules.Config {
			p.rules[ruleWords(rule)] = rule
		}
	}
	p.sort()
	return p
}

// take takes the interfaces of a target as those that shall be.
func (p *planner) take(interfaces []document.Interface) {
	for _, i := range interfaces {
		p.dirty[i.Name] = true
		now := p.now[i.Name]
		if i.State == document.Absent {
			if now == nil || compare.Virtual(now.Type) {
				delete(p.want, i.Name)
				continue
			}
			i.State, i.Type = document.Down, now.Type
		}
		if i.State == "" {
			i.State = document.Up
		}
		if now != nil && (i.Type == document.Ethernet || i.Type == "") {
			i.Type = now.Type
		}
		p.want[i.Name] = &i
	}
}

// wantListedPorts makes interfaces ports that only the lists of controllers name, and takes
// those off that the lists do not have.
func (p *planner) wantListedPorts(interfaces []document.Interface) {
	explicit, listed := map[string]bool{}, map[string][]string{}
	for _, i := range interfaces {
		explicit[i.Name] = i.Controller != nil
		if i.State != document.Absent && i.Ports() != nil {
			listed[i.Name] = i.Ports()
		}
	}
	for _, i := range interfaces {
		for _, port := range listed[i.Name] {
			if p.want[port] != nil && !explicit[port] {
				p.want[port].Controller, p.dirty[port] = &i.Name, true
			}
		}
	}
	for name, want := range p.want {
		ports, ok := listed[controller(want)]
		if ok && !explicit[name] && !slices.Contains(ports, name) {
			want.Controller, p.dirty[name] = new(""), true
		}
	}
}

// forgetMACsOfPorts: ports of a bond have its MAC address, and lose it with the bond.
func (p *planner) forgetMACsOfPorts() {
	for name := range p.dirty {
		want := p.want[name]
		if want == nil || controller(want) == "" {
			continue
		}
		if c := p.want[controller(want)]; c != nil && c.Type == document.Bond {
			want.MACAddress = ""
		}
	}
}

func controller(i *document.Interface) string {
	if i == nil || i.Controller == nil {
		return ""
	}
	return *i.Controller
}

// sort orders the interfaces that are or shall be.
func (p *planner) sort() {
	names := map[string]bool{}
	derived := map[string]map[string]bool{}
	for _, all := range []map[string]*document.Interface{p.now, p.want} {
		for name, i := range all {
			names[name] = true
			if base := i.Base(); base != "" {
				if derived[base] == nil {
					derived[base] = map[string]bool{}
				}
				derived[base][name] = true
			}
		}
	}
	for base, set := range derived {
		p.derived[base] = sortedNames(set)
	}
	placed := map[string]bool{}
	for _, name := range sortedNames(names) {
		p.place(name, placed)
	}
}

// place puts an interface into the order, after those that come before it.
func (p *planner) place(name string, placed map[string]bool) {
	if placed[name] || name == "" {
		return
	}
	placed[name] = true
	for _, i := range []*document.Interface{p.want[name], p.now[name]} {
		if i != nil {
			p.place(controller(i), placed)
			p.place(i.Base(), placed)
		}
	}
	p.order = append(p.order, name)
}

func sortedNames(set map[string]bool) []string {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

// each calls a function with the interfaces that shall be and may be other than they shall
// be, in order.
func (p *planner) each(do func(now, want *document.Interface)) {
	for _, name := range p.order {
		now, want := p.now[name], p.want[name]
		if p.dirty[name] && now != nil && want != nil {
			do(now, want)
		}
	}
}

func (p *planner) step(s Step) { p.steps = append(p.steps, s) }

func (p *planner) setResolver(current *document.State, t *target.Target) {
	if t.Resolver == nil {
		return
	}
	var now document.Resolver
	if current.DNS != nil && current.DNS.Config != nil {
		now = *current.DNS.Config
	}
	want := *t.Resolver
	if !slices.Equal(now.Server, want.Server) || !slices.Equal(now.Search, want.Search) ||
		!slices.Equal(now.Options, want.Options) {
		p.step(SetResolver{want})
	}
}
