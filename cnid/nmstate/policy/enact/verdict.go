// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"reflect"
	"slices"
	"time"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// settled reports whether the node has the wanted settings, and its state handler has tried them.
func (p *pass) settled(wanted goal) bool {
	return p.writable() && p.State.Observed() && p.written(wanted)
}

// written reports whether the node's desired state has the wanted settings.
func (p *pass) written(wanted goal) bool {
	return policy.Same(p.State.Desired, wanted.Desired) && policy.Same(p.State.FromPolicies, wanted.FromPolicies) &&
		slices.EqualFunc(p.State.Parts, wanted.parts, nmstate.Part.Equal) && slices.Equal(p.State.PolicyReach, wanted.reach)
}

// judge reports the results of changes in enactments. It returns true if the wanted settings have
// changed: an undo is complete, or a change failed.
func (p *pass) judge(wanted goal) bool {
	if !p.State.Available && !p.State.Failing {
		return false
	}
	faults, changed := p.faults(wanted), false
	// What fails while a policy changes the node is the failure of that policy.
	quiet := faults.named && p.free()
	for _, e := range p.entries {
		message, failed := faults.of(e, wanted)
		switch {
		case e.relation == stuck:
		case failed:
			changed = p.fail(e, message, quiet) || changed
		default:
			changed = e.succeed() || changed
		}
	}
	return changed
}

// faults are why the node lacks parts of its desired state, by paths of Aggregation.Parts.
type faults struct {
	byPath map[string]string
	// all: the whole desired state is missing, for the reason of message.
	all     bool
	message string
	// named: the state handler names the missing settings. Otherwise it could not read the node.
	named bool
}

// faults go by the parts that the state handler names. One that names none means all.
func (p *pass) faults(wanted goal) faults {
	named := len(p.State.Failures) > 0
	f := faults{byPath: map[string]string{}, all: p.State.Failing && !named, message: p.State.Message, named: named}
	if p.State.Available {
		return f
	}
	for _, failure := range p.State.Failures {
		at := slices.IndexFunc(wanted.parts, func(part nmstate.Part) bool { return part.Paths[0] == failure.Path })
		if at < 0 {
			return faults{all: true, message: p.State.Message, named: named}
		}
		for _, path := range wanted.parts[at].Paths {
			f.byPath[path] = failure.Message
		}
	}
	return f
}

// of returns why the node lacks something that a policy is about, and whether it does.
func (f faults) of(e *entry, wanted goal) (message string, failed bool) {
	if f.all {
		return f.message, true
	}
	for _, owner := range e.owners() {
		for _, path := range wanted.About(owner) {
			if message, failed = f.byPath[path]; failed {
				return message, true
			}
		}
	}
	return "", false
}

// lost reports whether the node once had the settings of a policy, and lacks them since. This
// does not count as a failure of a change.
func lost(e *nmstate.Enactment) bool {
	return e.Phase == nmstate.Failing && e.Reason == nmstatev1.ConfigurationLostReason
}

// fail handles an entry whose settings the node lacks in part. quiet: no policy changes the node,
// so settings that the node once had are lost. fail reports whether the entry goes back to the
// formerly applied settings.
func (p *pass) fail(e *entry, message string, quiet bool) bool {
	// One that has gone back before fails for the reason that it was told then.
	blamed := e.is.Phase == nmstate.Progressing || e.failing() && (e.is.Trial.Open || e.is.Trial.Failures == 0)
	had := e.is.Phase == nmstate.Available && len(e.is.Applied) > 0
	switch {
	case had || lost(&e.is):
		if quiet {
			e.failed(nmstatev1.ConfigurationLostReason, "The node no longer has what the policy desires: "+message)
		}
	case blamed:
		e.failed(nmstatev1.FailedToConfigureReason, message)
	}
	if !e.is.Trial.Open {
		return false
	}
	p.goBack(e)
	return true
}

// failed sets a failure in the enactment. A lasting failure keeps its text and the time of its
// beginning: a further attempt with the same cause does not change the enactment.
func (e *entry) failed(reason, message string) {
	same := e.is.Phase == nmstate.Failing && e.is.Reason == reason && quote.SameCause(e.is.Message, quote.Message(message))
	if !same {
		e.tell(nmstate.Failing, reason, message)
	}
}

// succeed handles an entry whose settings the node has completely. It reports whether the entry
// undid something.
func (e *entry) succeed() bool {
	wentBack := e.is.Trial.Failures > 0 && !e.is.Trial.Open
	if e.is.Phase == nmstate.Progressing || e.failing() && !wentBack {
		e.tell(nmstate.Available, nmstatev1.SuccessfullyConfiguredReason, "The node has what the policy desires.")
	}
	if e.is.Trial.Open {
		e.is.Trial = nmstate.Trial{}
	}
	return e.undone()
}

// undone ends what an enactment undoes, and reports whether there was something.
func (e *entry) undone() bool {
	if e.is.Undoing == nil {
		return false
	}
	e.is.Undoing = nil
	if e.is.Applied == nil {
		e.is.Before, e.over = nil, e.relation == ends
	}
	return true
}

// overrule tells enactments which of their fields others have.
func (p *pass) overrule(wanted goal) {
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

func (p *pass) changes(wanted goal) Changes {
	c := Changes{Again: p.again}
	for _, e := range p.entries {
		e.is.Message = quote.Message(e.is.Message) // in its written form, so that the next pass finds it unchanged
		switch {
		case e.relation == stuck:
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
		c.Owners = owners(wanted.Aggregation)
	}
	if p.writable() && !p.written(wanted) {
		c.Desired = &Desired{
			State: p.described(wanted.Desired), FromPolicies: orNil(wanted.FromPolicies), Parts: wanted.parts,
			Reach: wanted.reach, ResourceVersion: p.State.ResourceVersion,
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
