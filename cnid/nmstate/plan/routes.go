// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// removeRules removes rules that shall not be.
func (p *planner) removeRules() {
	keep := map[string]bool{}
	for _, rule := range p.wantRules {
		keep[ruleWords(rule)] = true
	}
	var words []string
	for word := range p.rules {
		if !keep[word] {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	for _, word := range words {
		p.step(RemoveRule{compare.NormalRule(p.rules[word])})
	}
}

func (p *planner) addRules() {
	for _, rule := range p.wantRules {
		words := ruleWords(rule)
		if _, ok := p.rules[words]; !ok {
			p.step(AddRule{compare.NormalRule(rule)})
			p.rules[words] = rule
		}
	}
}

// removeRoutes removes routes that shall not be: those by way of others first, which the
// others are needed for.
func (p *planner) removeRoutes() {
	keep := map[string]bool{}
	for _, route := range p.wantRoutes {
		keep[routeWords(route)] = true
	}
	var routes []document.Route
	for _, word := range p.routeOrder {
		if !keep[word] {
			routes = append(routes, p.routes[word])
			delete(p.routes, word)
		}
	}
	for _, route := range slices.Backward(inSteps(routes)) {
		p.step(RemoveRoute{compare.NormalRoute(route)})
	}
}

// addRoutes adds routes, those on a link before those by way of an address.
func (p *planner) addRoutes() {
	for _, route := range inSteps(p.wantRoutes) {
		words := routeWords(route)
		if _, ok := p.routes[words]; !ok {
			p.step(AddRoute{compare.NormalRoute(route)})
			p.routes[words] = route
		}
	}
}

// inSteps orders routes such that each comes after those that it needs.
func inSteps(routes []document.Route) []document.Route {
	routes = slices.Clone(routes)
	slices.SortStableFunc(routes, func(a, b document.Route) int { return hops(a) - hops(b) })
	return routes
}

func hops(route document.Route) int {
	if route.Address == "" {
		return 0
	}
	return 1
}
