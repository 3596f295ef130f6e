// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"fmt"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// apply puts a policy into the node's desired state once the node has a slot.
func (p *pass) apply(e *entry) {
	ready := e.is.Phase == nmstate.Pending && e.is.PolicyGeneration == e.policy.Generation &&
		e.is.Slot.Lives(p.Node.Name, p.Now)
	if !ready || !p.free() {
		return
	}
	left, err := p.try(e)
	if err != nil {
		e.tell(nmstate.Pending, nmstatev1.RefusedReason, fmt.Sprintf("the state of the node: %v", err))
		return
	}
	e.tell(nmstate.Progressing, nmstatev1.ConfigurationProgressingReason, "The node changes."+left)
}

// free reports whether a policy can change the node now. One policy at a time changes the node,
// and the next one begins once the result is known: a failure belongs to the policy that changes
// the node.
func (p *pass) free() bool {
	for _, other := range p.entries {
		if other.is.Trial.Open {
			return false
		}
	}
	return p.writable() && p.Node.Current != nil
}

// try puts the settings of a policy into the node's desired state. The formerly applied settings
// come back if that fails. try undoes settings that the policy no longer has; left tells which
// ones stay.
func (p *pass) try(e *entry) (left string, err error) {
	before, err := p.before(e)
	if err != nil {
		return "", err
	}
	old, removed := e.is.Applied, p.part(e)
	e.is.Trial.Open, e.is.Trial.Former, e.is.Trial.FormerPriority = true, old, e.is.AppliedPriority
	e.is.Before, e.is.Applied, e.is.AppliedPriority = orNil(before), e.is.Desired, e.policy.Spec.Priority
	if old == nil {
		return "", nil
	}
	if removed, err = policy.Minus(removed, e.is.Applied); err == nil {
		left, err = p.turnBack(e, removed)
	}
	if err != nil {
		left = fmt.Sprintf(" What the policy no longer has stays: %v", err)
	}
	return left, nil
}

// before is the node's state without any policy, as far as this one may change it.
func (p *pass) before(e *entry) (map[string]any, error) {
	origin, err := p.origin()
	if err != nil {
		return nil, err
	}
	return policy.Excerpt(origin, e.is.Desired, e.is.Applied)
}

// origin is the node's state without any policy. It is made of what the policies found, for
// the node has their changes already.
func (p *pass) origin() (map[string]any, error) {
	var pasts []policy.Past
	for _, one := range p.entries {
		if one.is.Applied != nil || one.is.Undoing != nil {
			pasts = append(pasts, policy.Past{Before: one.is.Before, Changes: []map[string]any{one.is.Applied, one.is.Undoing}})
		}
	}
	return policy.Origin(p.Node.Current, pasts)
}
