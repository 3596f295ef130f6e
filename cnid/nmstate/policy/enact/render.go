// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/api/nmstate/document"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/capture"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// render makes what a policy desires of the node, once for each generation, if it can.
func (p *pass) render(e *entry) {
	current := e.is.PolicyGeneration == e.policy.Generation && e.is.Invalid == ""
	can := p.writable() && p.Node.Current != nil
	if can && (!current || e.volatile()) && p.renew(e, current) {
		return
	}
	if !current || e.is.Phase == nmstate.Pending {
		p.wait(e)
	}
}

// volatile reports whether a policy is rendered again although it did not change: while it
// fails or matches nothing, and always if it has match rules and no expressions. The rest
// could mean something else after it was applied.
func (e *entry) volatile() bool {
	return e.refused() || len(e.policy.Spec.Match) > 0 && (len(e.policy.Capture) == 0 || len(e.is.Desired) == 0)
}

// renew renders a policy, and reports whether the result is new.
func (p *pass) renew(e *entry, current bool) bool {
	desired, captured, err := p.instantiate(e)
	if err == nil && current && !e.refused() && policy.Same(desired, e.is.Desired) {
		return false
	}
	e.is.PolicyGeneration, e.is.Keep, e.is.Invalid = e.policy.Generation, e.policy.Keep, ""
	e.is.Desired, e.is.Captured = orNil(desired), captured
	if !e.is.Trial.Open {
		e.is.Trial = nmstate.Trial{}
	}
	if err != nil {
		e.tell(nmstate.Failing, nmstatev1.RefusedReason, err.Error())
		return true
	}
	p.await(e)
	return true
}

// await reports whether a rendered enactment waits for a slot, or desires nothing.
func (p *pass) await(e *entry) {
	if len(e.is.Desired) > 0 || len(e.is.Applied) > 0 || len(e.is.Undoing) > 0 {
		p.wait(e)
		return
	}
	message := "The policy desires nothing of the node."
	if len(e.policy.Spec.Match) > 0 {
		message = "No interface of the node matches the policy."
	}
	e.tell(nmstate.Available, nmstatev1.SuccessfullyConfiguredReason, message)
}

// wait reports why an enactment can't be applied yet.
func (p *pass) wait(e *entry) {
	switch {
	case p.State == nil || p.State.Managed && p.fault == "" && p.Node.Current == nil:
		e.tell(nmstate.Pending, nmstatev1.ConfigurationProgressingReason, "The current state of the node is not known yet.")
	case !p.State.Managed:
		e.tell(
			nmstate.Pending,
			nmstatev1.UnmanagedReason,
			"The node is not managed: spec.managed of its NodeNetworkState is false.",
		)
	case p.fault != "":
		e.tell(nmstate.Pending, nmstatev1.RefusedReason, p.fault)
	default:
		e.tell(
			nmstate.Pending,
			nmstatev1.MaxUnavailableLimitReachedReason,
			"The node waits: as many nodes change as may, or a policy that comes first is not done with the node.",
		)
	}
}

// instantiate evaluates and renders a policy. Expressions are evaluated on the current
// state, match rules on the state as it was before the policy.
func (p *pass) instantiate(e *entry) (desired map[string]any, captured map[string]map[string]any, err error) {
	if e.policy.Fault != "" {
		return nil, nil, errors.New(e.policy.Fault)
	}
	if captured, err = capture.Evaluate(e.policy.Capture, p.Node.Current, nil); err != nil {
		return nil, nil, err
	}
	if len(captured) == 0 {
		captured = nil
	}
	spec, node := e.policy.Spec, p.Node
	if spec.Desired, err = capture.Render(spec.Desired, captured); err != nil {
		return nil, nil, err
	}
	// An undo goes by the names of interfaces, and so do the other policies of the node.
	spec.Desired = document.KernelNames(spec.Desired, p.Node.Current)
	if len(spec.Match) > 0 {
		node.Current = policy.Seen(p.Node.Current, e.is.Before, e.is.Applied)
	}
	if desired, _, err = policy.Instantiate(spec, node); err != nil {
		return nil, nil, fmt.Errorf("desired state: %w", err)
	}
	return document.Normal(desired), captured, nil
}

// abort stops a node that waits once too many others failed, and lets it wait again after
// that is over.
func (p *pass) abort(e *entry) {
	switch {
	case e.policy.Aborted && e.is.Phase == nmstate.Pending && e.is.PolicyGeneration == e.policy.Generation:
		e.tell(
			nmstate.Aborted,
			nmstatev1.ConfigurationAbortedReason,
			"The node was not changed, because too many other nodes failed.",
		)
	case !e.policy.Aborted && e.is.Phase == nmstate.Aborted:
		p.wait(e)
	}
}

// refused reports whether the policy can't be rendered for the node.
func (e *entry) refused() bool {
	return e.is.Phase == nmstate.Failing && e.is.Reason == nmstatev1.RefusedReason
}

func (e *entry) tell(phase nmstate.Phase, reason, message string) {
	e.is.Phase, e.is.Reason, e.is.Message = phase, reason, message
}

// orNil returns nil for an empty document, so that a written document is read back unchanged.
func orNil(document map[string]any) map[string]any {
	if len(document) == 0 {
		return nil
	}
	return document
}
