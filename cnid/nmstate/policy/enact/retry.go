// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"slices"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// The pause after a change that failed doubles from the first to the longest one.
const (
	firstPause   = 15 * time.Second
	longestPause = 10 * time.Minute
)

func pauseAfter(failures int) time.Duration {
	pause := firstPause
	for range failures - 1 {
		if pause *= 2; pause >= longestPause {
			return longestPause
		}
	}
	return pause
}

// goBack ends a change that failed: it applies the former settings again. The state handler has
// restored the network, unless the change succeeded first and failed later. So goBack undoes the
// added settings too.
func (p *pass) goBack(e *entry) {
	t, removed := e.is.Trial, p.part(e)
	e.is.Applied, e.is.AppliedPriority = t.Former, t.FormerPriority
	if removed, err := policy.Minus(removed, e.is.Applied); err == nil {
		_, _ = p.turnBack(e, removed) // What can't be undone was not applied.
	}
	failures := t.Failures + 1
	e.is.Trial = nmstate.Trial{
		Failures: failures, Next: p.Now.Add(pauseAfter(failures)).Truncate(time.Second),
		Seen: p.setting(e),
	}
}

// setting is a digest of what a policy depends on.
func (p *pass) setting(e *entry) string {
	others := slices.DeleteFunc(p.applied(), func(s policy.Share) bool { return s.Policy == e.is.Policy })
	a, _ := policy.Aggregate(others, p.manual) // readManual has read it
	return policy.Setting(e.is.Desired, p.Node.Current, a.Desired)
}

// retry tries a policy again whose change failed: after a pause, or at once when an interface that
// it is about has come or gone, or others desire something else. It needs no slot, for the node
// had its turn.
func (p *pass) retry(e *entry) {
	t := e.is.Trial
	failed := e.failing() && !t.Open && t.Failures > 0
	if !failed || e.is.PolicyGeneration != e.policy.Generation || !p.writable() || p.Node.Current == nil {
		return
	}
	if p.Now.Before(t.Next) && p.setting(e) == t.Seen {
		p.wake(t.Next)
		return
	}
	if p.free() {
		_, _ = p.try(e) // A state that can't be read is told by the next verdict.
	}
}

// failing reports whether the node could not become what the policy desires.
func (e *entry) failing() bool { return e.is.Phase == nmstate.Failing && !e.refused() }

// wake lets the next pass begin at a moment at the latest.
func (p *pass) wake(at time.Time) {
	if p.again.IsZero() || at.Before(p.again) {
		p.again = at
	}
}
