// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
)

// targets returns the targets that the node has to reach for a policy while it is applied. It
// leaves out the targets of a generation whose change failed.
func (e *entry) targets() []string {
	wentBack := e.is.Trial.Failures > 0 && !e.is.Trial.Open
	if e.policy == nil || e.relation == ends || e.is.Applied == nil || e.policy.Fault != "" || wentBack {
		return nil
	}
	return e.policy.Spec.Reach
}

// target adds the targets of an entry to the part of its policy. A policy that has nothing in any
// part changes nothing, so its targets are in none.
func (g *goal) target(e *entry) {
	targets := e.targets()
	if len(targets) == 0 {
		return
	}
	if len(g.parts) > 0 {
		at := g.partOf(e.is.Policy.String())
		if at < 0 {
			return
		}
		g.parts[at].Reach = withTargets(g.parts[at].Reach, targets)
	}
	g.reach = withTargets(g.reach, targets)
}

// partOf is the index of the part with what an owner asks for, -1 for none: all of it is in one.
func (g *goal) partOf(owner string) int {
	about := g.About(owner)
	for at, part := range g.parts {
		for _, path := range about {
			if _, found := slices.BinarySearch(part.Paths, path); found {
				return at
			}
		}
	}
	return -1
}

// withTargets adds targets to a list, each once and as many as the API has.
func withTargets(list, targets []string) []string {
	for _, one := range targets {
		if len(list) < v1beta1.MaxReach && !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}
