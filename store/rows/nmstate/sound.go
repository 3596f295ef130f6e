// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nmstate

import (
	"cmp"

	"github.com/alioth-net/alioth/store/sound"
)

// Check implements descriptor.Checked.
func (e *Enactment) Check() error {
	return cmp.Or(sound.Texts(e.PolicyUID, e.Slot.Holder, e.Slot.PolicyUID, string(e.Phase), e.Reason), e.Policy.Check())
}

// Check implements descriptor.Checked.
func (s *State) Check() error {
	for _, part := range s.Parts {
		if err := cmp.Or(sound.Texts(part.Paths...), sound.Texts(part.Reach...)); err != nil {
			return err
		}
	}
	return cmp.Or(sound.Texts(s.Reach...), sound.Texts(s.PolicyReach...))
}

// Check implements descriptor.Checked.
func (p *Policy) Check() error {
	return cmp.Or(sound.Texts(string(p.Unavailable), p.LastSlot), p.Spec.Check())
}

// Check returns an error for a reference with texts that no row has.
func (r Reference) Check() error { return sound.Texts(r.Kind, r.Name) }

// Check returns an error for a policy with texts that no row has, outside of its documents.
func (p *PolicySpec) Check() error {
	for _, rule := range p.Match {
		if err := sound.Texts(rule.Name, rule.Type); err != nil {
			return err
		}
	}
	for key, value := range p.Selector {
		if err := sound.Texts(key, value); err != nil {
			return err
		}
	}
	for _, toleration := range p.Tolerations {
		if err := sound.Texts(toleration.Key, toleration.Operator, toleration.Value, toleration.Effect); err != nil {
			return err
		}
	}
	return cmp.Or(sound.Texts(p.Reach...), p.Affinity.check())
}

// check returns an error for texts that no row has, else nil.
func (a *Affinity) check() error {
	if a == nil {
		return nil
	}
	for _, term := range a.Terms {
		for _, r := range append(term.Labels[:len(term.Labels):len(term.Labels)], term.Fields...) {
			if err := cmp.Or(sound.Texts(r.Key, r.Operator), sound.Texts(r.Values...)); err != nil {
				return err
			}
		}
	}
	return nil
}
