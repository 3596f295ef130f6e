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
