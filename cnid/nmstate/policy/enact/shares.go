// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// readManual finds the fields that were set by hand.
func (p *pass) readManual() {
	manual, err := policy.ManualPart(p.State.Desired, p.State.FromPolicies)
	switch {
	case p.State.Invalid != "":
		p.fault = fmt.Sprintf("The NodeNetworkState of the node can't be read; repair it: %s", p.State.Invalid)
	case err != nil:
		p.fault = fmt.Sprintf("The NodeNetworkState of the node can't be read; repair it: %v", err)
	default:
		p.manual = manual
	}
}

// writable reports whether the node's desired state can be written.
func (p *pass) writable() bool { return p.State != nil && p.State.Managed && p.fault == "" }

// applied are the shares of policies.
func (p *pass) applied() []policy.Share {
	var shares []policy.Share
	for _, e := range p.entries {
		if e.is.Applied != nil {
			shares = append(shares, policy.Share{Policy: e.is.Policy, Priority: e.is.AppliedPriority, Desired: e.is.Applied})
		}
	}
	return shares
}

// goal holds the desired state to write for the node, with its parts and the targets of policies.
type goal struct {
	policy.Aggregation
	parts []nmstate.Part
	reach []string
}

// aggregate puts the wanted settings together. The settings that undo policies yield to all
// others.
func (p *pass) aggregate() goal {
	shares := p.applied()
	for _, e := range p.entries {
		if e.is.Undoing != nil {
			shares = append(shares, undoShares(e)...)
		}
	}
	a, _ := policy.Aggregate(shares, p.manual) // readManual has read it
	g := goal{Aggregation: a, parts: bounded(a.Parts(leading))}
	for _, e := range p.entries {
		g.target(e)
	}
	return g
}

// leading is the policy of an owner: what a policy has and what undoes it change together.
func leading(owner string) string {
	of, _ := undone(owner)
	return of
}

// bounded returns nil for more parts or paths than the API has: all is enforced together then.
func bounded(parts []nmstate.Part) []nmstate.Part {
	long := func(path string) bool { return len(path) > v1beta1.MaxPath }
	many := func(p nmstate.Part) bool {
		return len(p.Paths) > v1beta1.MaxPaths || slices.ContainsFunc(p.Paths, long)
	}
	if len(parts) > v1beta1.MaxParts || slices.ContainsFunc(parts, many) {
		return nil
	}
	return parts
}

// Names of the owners of undone settings begin with a character that policies can't have in their
// names, and that sorts after all of them.
const (
	undoRemoval = "~0"
	undoRest    = "~1"
)

// undoShares are the shares that undo a policy. Those that remove interfaces come first: one
// that nobody had before the policies is removed by the last of them, and an earlier one may
// still have a field of it.
func undoShares(e *entry) []policy.Share {
	const interfaces = "interfaces"
	list, _ := e.is.Undoing[interfaces].([]any)
	var removals, others []any
	for _, item := range list {
		if object, ok := item.(map[string]any); ok && object["state"] == "absent" {
			removals = append(removals, item)
		} else {
			others = append(others, item)
		}
	}
	rest := maps.Clone(e.is.Undoing)
	rest[interfaces] = others
	share := func(prefix string, desired map[string]any) policy.Share {
		return policy.Share{Policy: e.undoer(prefix), Priority: math.MinInt32, Desired: desired}
	}
	return []policy.Share{share(undoRemoval, map[string]any{interfaces: removals}), share(undoRest, rest)}
}

// undoer is an owner of what undoes a policy.
func (e *entry) undoer(prefix string) nmstate.Reference {
	return nmstate.Reference{Kind: e.is.Policy.Kind, Name: prefix + e.is.Policy.Name}
}

// owners are those by whose names a policy has parts of the desired state.
func (e *entry) owners() []string {
	return []string{e.is.Policy.String(), e.undoer(undoRemoval).String(), e.undoer(undoRest).String()}
}

// undone returns the policy of an owner, and whether it has a field only to undo it.
func undone(owner string) (string, bool) {
	for _, prefix := range []string{undoRemoval, undoRest} {
		if kind, name, ok := strings.Cut(owner, "/"+prefix); ok {
			return kind + "/" + name, true
		}
	}
	return owner, false
}

func owners(wanted policy.Aggregation) Owners {
	var o Owners
	o.List, o.More = wanted.Summary(v1beta1.MaxOwners)
	for i := range o.List {
		o.List[i].Owner, _ = undone(o.List[i].Owner)
	}
	var texts []string
	for _, c := range wanted.Conflicts {
		if _, is := undone(c.Loser); !is {
			texts = append(texts, c.String())
		}
	}
	slices.Sort(texts)
	o.Conflict = cut(texts)
	return o
}
