// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"fmt"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/store/nmstate"
	"github.com/alioth-net/alioth/store/nmstate/policy"
)

// apply puts a policy into the node's desired state once the node has a slot. What the
// older generation had besides is undone.
func (p *pass) apply(e *entry) {
	ready := e.is.Phase == nmstate.Pending && e.is.PolicyGeneration == e.policy.Generation && e.is.Slot.Lives(p.Node.Name, p.Now)
	if !ready || !p.writable() || p.Node.Current == nil {
		return
	}
	before, err := p.before(e)
	if err != nil {
		e.tell(nmstate.Pending, nmstatev1.RefusedReason, fmt.Sprintf("the state of the node: %v", err))
		return
	}
	old := e.is.Applied
	removed := p.part(e)
	e.is.Before, e.is.Applied, e.is.AppliedPriority = orNil(before), e.is.Desired, e.policy.Spec.Priority
	e.tell(nmstate.Progressing, nmstatev1.ConfigurationProgressingReason, "The node changes.")
	if old == nil {
		return
	}
	if removed, err = policy.Minus(removed, e.is.Applied); err == nil {
		err = p.turnBack(e, removed)
	}
	if err != nil {
		e.is.Message = fmt.Sprintf("The node changes. What the policy no longer has stays: %v", err)
	}
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
