// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"reflect"
	"slices"
	"time"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/api/said"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/nmstate"
	"github.com/alioth-net/alioth/store/nmstate/policy"
)

// settled reports whether the node has what is wanted, and its state handler has tried it.
func (p *pass) settled(wanted policy.Aggregation) bool {
	return p.writable() && p.State.Observed() && p.written(wanted)
}

// written reports whether the node's desired state is what is wanted.
func (p *pass) written(wanted policy.Aggregation) bool {
	return policy.Same(p.State.Desired, wanted.Desired) && policy.Same(p.State.FromPolicies, wanted.FromPolicies) &&
		slices.Equal(p.State.PolicyReach, p.reach())
}

// reach are the targets of the policies that the node's desired state has, those of the first
// policies if there are too many.
func (p *pass) reach() (list []string) {
	for _, e := range p.entries {
		if e.policy == nil || e.relation == ends || e.is.Applied == nil || e.policy.Fault != "" {
			continue
		}
		for _, target := range e.policy.Spec.Reach {
			if len(list) < v1beta1.MaxReach && !slices.Contains(list, target) {
				list = append(list, target)
			}
		}
	}
	return list
}

// judge tells how it went, and reports whether something is undone by now and can leave the
// desired state.
func (p *pass) judge() bool {
	undone := false
	for _, e := range p.entries {
		open := e.is.Phase == nmstate.Progressing || e.is.Phase == nmstate.Failing && !e.refused()
		switch {
		case p.State.Available:
			undone = e.undone() || undone
			if open {
				e.tell(nmstate.Available, nmstatev1.SuccessfullyConfiguredReason, "The node has what the policy desires.")
			}
		case p.State.Failing && open:
			e.tell(nmstate.Failing, nmstatev1.FailedToConfigureReason, p.State.Message)
		}
	}
	return undone
}

// undone ends what an enactment undoes, and reports whether there was something.
func (e *entry) undone() bool {
	if e.is.Undoing == nil {
		return false
	}
	e.is.Undoing = nil
	e.over = e.relation == ends && e.is.Applied == nil
	return true
}

// overrule tells enactments which of their fields others have.
func (p *pass) overrule(wanted policy.Aggregation) {
	if p.fault != "" {
		return
	}
	lost := map[string][]string{}
	for _, c := range wanted.Conflicts {
		lost[c.Loser] = append(lost[c.Loser], c.String())
	}
	for _, e := range p.entries {
		texts := lost[e.is.Policy.String()]
		slices.Sort(texts)
		e.is.Overruled = cut(texts)
	}
}

func (p *pass) changes(wanted policy.Aggregation) Changes {
	var c Changes
	for _, e := range p.entries {
		e.is.Message = said.Message(e.is.Message) // as it is written, so that it is no change the next time
		switch {
		case e.over && e.was != nil:
			c.Delete = append(c.Delete, e.was)
		case e.over:
		case e.rename(p.Now):
			c.Put, c.Delete = append(c.Put, e.is), append(c.Delete, e.was)
		case e.changed():
			c.Put = append(c.Put, e.is)
		}
	}
	c.Delete = append(c.Delete, p.replaced...)
	if p.fault == "" {
		c.Owners = owners(wanted)
	}
	if p.writable() && !p.written(wanted) {
		c.Desired = &Desired{
			State: p.described(wanted.Desired), FromPolicies: orNil(wanted.FromPolicies), Reach: p.reach(), ResourceVersion: p.State.ResourceVersion,
		}
	}
	return c
}

// described gives a desired state the description that was set by hand, which no field of
// policies is.
func (p *pass) described(desired map[string]any) map[string]any {
	const description = "description"
	if text, ok := p.State.Desired[description]; ok {
		desired[description] = text
	}
	return orNil(desired)
}

// rename gives an enactment with a former name the present one, and reports whether it did: a
// new object then has all that the former one has but the slot, so the policy is not applied
// again. While a slot lives the former one stays, for the operator counts it.
func (e *entry) rename(now time.Time) bool {
	if e.was == nil || !former(e.was) || e.was.Slot.Expires.After(now) {
		return false
	}
	e.is.Meta, e.is.Name, e.is.Slot = store.Meta{}, nameOf(e.was), nmstate.Slot{}
	return true
}

// changed reports whether an enactment has to be written.
func (e *entry) changed() bool {
	if e.was == nil {
		return true
	}
	a, b := *e.was, e.is
	a.Meta, b.Meta, a.Slot, b.Slot = store.Meta{}, store.Meta{}, nmstate.Slot{}, nmstate.Slot{}
	return !reflect.DeepEqual(a, b)
}
