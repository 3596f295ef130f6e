// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"fmt"
	"strings"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// undo begins the end of the policies that no longer select the node. They end one after the
// other: the later one undoes the settings that both have.
func (p *pass) undo() {
	for _, e := range p.entries {
		if e.relation == stuck {
			continue
		}
		if p.forget(e); e.relation != ends || e.over {
			continue
		}
		switch {
		case e.is.Keep || e.is.Applied == nil && e.is.Undoing == nil:
			e.is.Applied, e.is.Undoing, e.over = nil, nil, true
		case e.is.Applied != nil && p.writable() && p.Node.Current != nil:
			p.end(e)
		}
	}
}

// forget leaves out of what an enactment undoes the interfaces that somebody has removed
// meanwhile: they would fail for ever, and all other policies of the node with them.
func (p *pass) forget(e *entry) {
	if e.is.Undoing == nil || p.Node.Current == nil {
		return
	}
	if present, err := policy.Present(e.is.Undoing, p.Node.Current); err == nil {
		e.is.Undoing = orNil(present)
	}
}

// end takes a policy out of the node's desired state, and puts in what restores the state
// before.
func (p *pass) end(e *entry) {
	applied, removed := e.is.Applied, p.part(e)
	e.is.Applied = nil
	left, err := p.turnBack(e, removed)
	if err != nil {
		e.is.Applied = applied
		e.tell(nmstate.Failing, nmstatev1.RefusedReason, fmt.Sprintf("the policy can't be undone: %v", err))
		return
	}
	e.tell(
		nmstate.Progressing,
		nmstatev1.ConfigurationProgressingReason,
		"The policy ends, and what it changed is undone."+left,
	)
	// A policy that is back is rendered anew.
	e.is.Trial = nmstate.Trial{}
	e.is.PolicyGeneration, e.is.Desired, e.is.Captured, e.is.AppliedPriority = 0, nil, nil, 0
	e.over = e.is.Undoing == nil
}

// part returns the fields of the node's desired state that the policy of an entry has.
func (p *pass) part(e *entry) map[string]any {
	a, _ := policy.Aggregate(p.applied(), p.manual) // readManual has read it
	return a.Part(e.is.Policy.String())
}

// turnBack adds to the changes that an enactment undoes. The entry has its applied rest. note is
// about fields that stay.
func (p *pass) turnBack(e *entry, removed map[string]any) (note string, err error) {
	next, err := policy.Aggregate(p.applied(), p.manual)
	if err != nil {
		return "", err
	}
	before, err := policy.Remaining(e.is.Before, p.Node.Current, removed)
	if err != nil {
		return "", err
	}
	back, left, err := policy.Undo(removed, next.Desired, before)
	if err != nil {
		return "", err
	}
	// The undo of an earlier change may still be in progress.
	both, err := policy.Aggregate(
		[]policy.Share{{Policy: e.is.Policy, Priority: 1, Desired: back}, {Policy: e.is.Policy, Desired: e.is.Undoing}},
		nil,
	)
	if err != nil {
		return "", err
	}
	e.is.Undoing = orNil(both.Desired)
	if len(left) > 0 {
		note = " These stay, because nothing tells what they were: " + cut(left) + "."
	}
	return note, nil
}

// maxText bounds texts about fields, in bytes, as the schemas do.
const maxText = 1024

// cut joins texts, as many as fit.
func cut(texts []string) string {
	const more = "; and more"
	var b strings.Builder
	for i, text := range texts {
		if i > 0 {
			text = "; " + text
		}
		if b.Len()+len(text)+len(more) > maxText {
			b.WriteString(more)
			break
		}
		b.WriteString(text)
	}
	return b.String()
}
