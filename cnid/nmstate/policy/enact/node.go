// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"cmp"
	"slices"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// Node decides what the objects of one node become. A pass over what it has written changes
// nothing, unless something else changed; and a pass after some of it was lost repairs it.
//
// It takes a policy one step at a time: it renders the policy, and in a later pass, with a
// slot, applies it; and once the node's state handler has seen the result, it tells how
// that went.
func Node(s Situation) Changes {
	p := begin(s)
	p.undo()
	for _, e := range p.entries {
		if e.relation == follows {
			p.render(e)
			p.abort(e)
			p.apply(e)
			p.retry(e)
		}
	}
	wanted := p.aggregate()
	if p.settled(wanted) && p.judge(wanted) {
		wanted = p.aggregate()
	}
	p.overrule(wanted)
	return p.changes(wanted)
}

// relation is the relation of a policy to the node.
type relation int

const (
	// ends: the policy is gone, or not for the node any longer.
	ends relation = iota
	// held: the policy is kept away by a taint alone, after it was applied.
	held
	// follows: the policy is for the node.
	follows
	// stuck: the enactment can't be written, and stays as it is.
	stuck
)

// entry is an enactment on its way.
type entry struct {
	// was is nil for a new one.
	was *nmstate.Enactment
	is  nmstate.Enactment
	// policy is nil if it is gone.
	policy   *nmstate.Policy
	relation relation
	// over: the enactment is deleted.
	over bool
}

// pass is one call of Node.
type pass struct {
	Situation
	// entries are in the order of their policies, and those without one come last.
	entries []*entry
	// manual are the fields that were set by hand, and fault the reason if they can't be read.
	manual map[string]any
	fault  string
	// again is when time alone changes the result, zero for never.
	again time.Time
	// replaced are enactments with a former name that have a successor.
	replaced []*nmstate.Enactment
}

func begin(s Situation) *pass {
	p := &pass{Situation: s}
	if s.State != nil {
		p.Node.Current = s.State.Current
		p.readManual()
	}
	existing := p.byPolicy()
	for _, one := range slices.SortedFunc(slices.Values(s.Policies), order) {
		e := existing[one.Spec.Reference]
		delete(existing, one.Spec.Reference)
		p.add(one, e)
	}
	for _, e := range slices.SortedFunc(slices.Values(s.Enactments), byName) {
		if existing[e.Policy] == e {
			p.entries = append(p.entries, &entry{was: e, is: *e, relation: p.relate(nil, e)})
		}
	}
	return p
}

// byPolicy are the enactments by their policies. One with a former name counts until there is
// one with the present name, which has all that it had.
func (p *pass) byPolicy() map[nmstate.Reference]*nmstate.Enactment {
	existing := map[nmstate.Reference]*nmstate.Enactment{}
	for _, e := range p.Enactments {
		other := existing[e.Policy]
		if other != nil && former(e) {
			e, other = other, e
		}
		if other != nil {
			p.replaced = append(p.replaced, other)
		}
		existing[e.Policy] = e
	}
	return existing
}

// former reports whether an enactment has the name that an earlier version gave to it.
func former(e *nmstate.Enactment) bool { return e.Name != nameOf(e) }

func nameOf(e *nmstate.Enactment) string {
	return v1beta1.EnactmentName(e.Node, e.Policy.Kind, e.Policy.Name)
}

// add puts a policy into the pass, unless the node has nothing to do with it.
func (p *pass) add(one *nmstate.Policy, was *nmstate.Enactment) {
	e := &entry{was: was, policy: one}
	if was != nil {
		e.is = *was
	}
	e.relation = p.relate(one, was)
	switch {
	case was == nil && e.relation != follows:
		return
	case was == nil:
		e.is = nmstate.Enactment{
			Name: v1beta1.EnactmentName(p.Node.Name, one.Spec.Kind, one.Spec.Name),
			Node: p.Node.Name, Policy: one.Spec.Reference, PolicyUID: one.UID,
		}
	}
	p.entries = append(p.entries, e)
}

// relate compares a policy, nil for a deleted one, with the node and its enactment there. The
// enactment of a former policy of the same name ends before the enactment of the policy begins.
func (p *pass) relate(one *nmstate.Policy, was *nmstate.Enactment) relation {
	switch {
	case was != nil && p.Stuck[was.Policy], one != nil && p.Stuck[one.Spec.Reference]:
		return stuck
	case one == nil || was != nil && was.PolicyUID != one.UID:
		return ends
	}
	if applies, _ := policy.Applies(one.Spec, p.Node); applies {
		return follows
	}
	tolerant := one.Spec
	tolerant.IgnoreTaints = true
	if selects, _ := policy.Applies(tolerant, p.Node); selects && was != nil && was.Applied != nil {
		return held
	}
	return ends
}

// order compares policies: the first one gets fields and slots first.
func order(a, b *nmstate.Policy) int {
	return cmp.Or(
		cmp.Compare(b.Spec.Priority, a.Spec.Priority),
		cmp.Compare(a.Spec.Name, b.Spec.Name),
		cmp.Compare(a.Spec.Kind, b.Spec.Kind),
	)
}

func byName(a, b *nmstate.Enactment) int { return cmp.Compare(a.Name, b.Name) }
