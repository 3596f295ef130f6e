// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"fmt"
	"slices"
	"strings"
	"time"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// census has the nodes that a policy is for by what became of it there, each sorted by name.
type census struct {
	configured, failed, aborted, changing, waiting []*nmstate.Enactment
	// missing is the number of nodes without an enactment of this generation.
	missing int
}

func (r *rollout) census() census {
	var c census
	for _, node := range r.nodes {
		e := r.own[node]
		switch {
		case e == nil:
			c.missing++
		case e.Phase == nmstate.Available:
			c.configured = append(c.configured, e)
		case e.Phase == nmstate.Failing:
			c.failed = append(c.failed, e)
		case e.Phase == nmstate.Aborted:
			c.aborted = append(c.aborted, e)
		case e.Phase == nmstate.Progressing:
			c.changing = append(c.changing, e)
		default:
			c.waiting = append(c.waiting, e)
		}
	}
	return c
}

// status returns the status of the policy. invalid is about its limit.
func (r *rollout) status(slots policy.Rollout, invalid error) Status {
	c := r.census()
	s := Status{Changing: slots.Changing, Conflict: r.conflict(), Message: c.message(len(r.nodes))}
	switch {
	case len(r.nodes) == 0:
		s.Condition, s.Reason, s.Message = nmstatev1.IgnoredCondition, nmstatev1.NoMatchingNodeReason, "The policy is for no node."
	case len(c.failed) > 0:
		s.Condition, s.Reason = nmstatev1.DegradedCondition, c.failure(slots.Aborted)
	case len(c.configured) == len(r.nodes):
		s.Condition, s.Reason = nmstatev1.AvailableCondition, nmstatev1.SuccessfullyConfiguredReason
	default:
		s.Condition, s.Reason = nmstatev1.ProgressingCondition, nmstatev1.ConfigurationProgressingReason
	}
	if slots.Down > 0 {
		s.Message += fmt.Sprintf(
			" Nodes that are not Ready since they began: %d. They count as nodes that change.",
			slots.Down,
		)
	}
	if invalid != nil {
		s.Message += fmt.Sprintf(" The default holds: %v.", invalid)
	}
	return s
}

// failure is the reason of a policy that failed on nodes. The roll-out is aborted only if
// there is a node that it did not reach.
func (c census) failure(aborted bool) string {
	if aborted && len(c.aborted)+len(c.waiting)+c.missing > 0 {
		return nmstatev1.ConfigurationAbortedReason
	}
	for _, reason := range []string{nmstatev1.RefusedReason, nmstatev1.ConfigurationLostReason} {
		if !slices.ContainsFunc(c.failed, func(e *nmstate.Enactment) bool { return e.Reason != reason }) {
			return reason
		}
	}
	return nmstatev1.FailedToConfigureReason
}

func (c census) message(nodes int) string {
	text := fmt.Sprintf("%d of %d nodes configured", len(c.configured), nodes)
	for _, part := range []struct {
		count int
		what  string
	}{
		{len(c.changing), "changing"}, {len(c.waiting) + c.missing, "waiting"}, {len(c.failed), "failed"}, {len(c.aborted), "aborted"},
	} {
		if part.count > 0 {
			text += fmt.Sprintf(", %d %s", part.count, part.what)
		}
	}
	return text + "." + summarize(c.failed, why)
}

// why returns the reason why a node failed. For lost settings it adds the time since when they
// are missing.
func why(e *nmstate.Enactment) string {
	if lost(e) {
		return fmt.Sprintf("since %s: %s", e.Since.UTC().Format(time.RFC3339), e.Message)
	}
	return e.Message
}

// conflict tells on which nodes others have fields of the policy.
func (r *rollout) conflict() string {
	var overruled []*nmstate.Enactment
	for _, e := range r.Enactments {
		if e.PolicyUID == r.Policy.UID && e.Overruled != "" {
			overruled = append(overruled, e)
		}
	}
	slices.SortFunc(overruled, byName)
	return strings.TrimSpace(summarize(overruled, func(e *nmstate.Enactment) string { return e.Overruled }))
}

// maxNodes bounds the nodes in a message, and maxOfNode the text for each of them, in bytes.
const (
	maxNodes  = 3
	maxOfNode = 320
)

// summarize joins the texts of the first enactments in a list: " node1: text. node2: text."
func summarize(list []*nmstate.Enactment, text func(*nmstate.Enactment) string) string {
	var b strings.Builder
	for i, e := range list {
		if i == maxNodes {
			fmt.Fprintf(&b, " And %d more.", len(list)-i)
			break
		}
		words := text(e)
		if len(words) > maxOfNode {
			words = quote.Cut(words, maxOfNode) + "..."
		}
		fmt.Fprintf(&b, " %s: %s.", e.Node, strings.TrimSuffix(words, "."))
	}
	return b.String()
}
