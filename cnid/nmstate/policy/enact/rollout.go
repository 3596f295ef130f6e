// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"slices"
	"time"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// Rollout decides which nodes may change for a policy, and what its status says. A pass
// over what it has written changes nothing, unless something else changed.
//
// A slot counts until its release is written or it expires, so there are never more than
// the policy permits.
func Rollout(n Nodes) Rolled {
	r := &rollout{Nodes: n, own: map[string]*nmstate.Enactment{}, down: map[string]bool{}}
	r.find()
	rolled := Rolled{Expires: n.Now.Add(SlotTime), Release: r.release()}
	next, err := policy.NextSlots(policy.Queue{
		Unavailable: n.Policy.Unavailable, Generation: n.Policy.Generation, Nodes: r.nodes, Last: n.Policy.LastSlot,
		Enactments: r.counted(), Now: n.Now,
	})
	rolled.Status = r.status(next, err)
	// Nodes to release are free for NextSlots, which counts their failures, and taken here.
	free := next.Limit - next.Down - r.live()
	for _, node := range next.Next[:max(0, min(free, len(next.Next)))] {
		rolled.Grant = append(rolled.Grant, r.own[node])
	}
	rolled.Again = r.again()
	return rolled
}

// rollout is one call of Rollout.
type rollout struct {
	Nodes
	// nodes are those that the policy is for, sorted.
	nodes []string
	// own are the enactments of the policy and of this generation, by node.
	own map[string]*nmstate.Enactment
	// down are the nodes that are not Ready.
	down map[string]bool
	// busy are nodes that are not done with a policy that comes first.
	busy map[string]bool
}

func (r *rollout) find() {
	for _, node := range r.Nodes.Nodes {
		r.down[node.Name] = node.Down
		if applies, _ := policy.Applies(r.Policy.Spec, node); applies {
			r.nodes = append(r.nodes, node.Name)
		}
	}
	slices.Sort(r.nodes)
	for _, e := range r.Enactments {
		if e.PolicyUID != r.Policy.UID || e.PolicyGeneration != r.Policy.Generation {
			continue
		}
		if r.own[e.Node] == nil || !former(e) {
			r.own[e.Node] = e
		}
	}
	r.busy = r.occupied()
}

// occupied are the nodes that are not done with a policy that comes before this one. A policy
// that is not for a node keeps no other from it.
func (r *rollout) occupied() map[string]bool {
	type place struct {
		ref  nmstate.Reference
		node string
	}
	others := map[place]*nmstate.Enactment{}
	for _, e := range r.Others {
		others[place{e.Policy, e.Node}] = e
	}
	busy := map[string]bool{}
	for _, one := range r.Policies {
		if order(one, r.Policy) >= 0 {
			continue
		}
		for _, node := range r.Nodes.Nodes {
			if applies, _ := policy.Applies(one.Spec, node); applies && open(one, others[place{one.Spec.Reference, node.Name}]) {
				busy[node.Name] = true
			}
		}
	}
	return busy
}

// open reports whether a node is not done with a policy: it was not rendered yet, or waits, or
// changes. The end of a former policy of that name, which may fail, keeps no other waiting.
func open(one *nmstate.Policy, e *nmstate.Enactment) bool {
	switch {
	case e == nil:
		return true
	case e.PolicyUID != one.UID:
		return false
	default:
		return e.PolicyGeneration != one.Generation || e.Phase == nmstate.Pending || e.Phase == nmstate.Progressing
	}
}

// release returns the enactments that are done with their slot. One that waits keeps it: the
// node may not have seen it yet.
func (r *rollout) release() []*nmstate.Enactment {
	var list []*nmstate.Enactment
	for _, e := range r.Enactments {
		if r.done(e) {
			list = append(list, e)
		}
	}
	return list
}

func (r *rollout) done(e *nmstate.Enactment) bool {
	over := e.Phase == nmstate.Available || e.Phase == nmstate.Failing || e.Phase == nmstate.Aborted
	return e.Slot.Expires.After(r.Now) && r.own[e.Node] == e && over
}

// counted are the enactments as NextSlots counts them.
func (r *rollout) counted() []policy.Enactment {
	var list []policy.Enactment
	for _, e := range r.Enactments {
		// The word of a node counts only if the operator let it begin. One that has lost what it
		// had is done with its change.
		counts := e.Slot.For(r.Policy) && !lost(e)
		one := policy.Enactment{
			Node:    e.Node,
			Expires: e.Slot.Expires,
			Down:    counts && r.down[e.Node] && e.Phase != nmstate.Available,
		}
		if r.done(e) {
			one.Expires = time.Time{}
		}
		if r.own[e.Node] == e {
			one.Generation = e.PolicyGeneration
			one.Failed = counts && e.Phase == nmstate.Failing
			one.Pending = r.waits(e)
		}
		list = append(list, one)
	}
	return list
}

// waits reports whether an enactment needs a slot now. One that waits for something else,
// for example an unmanaged node, would keep it from others.
func (r *rollout) waits(e *nmstate.Enactment) bool {
	return e.Phase == nmstate.Pending && e.Reason == nmstatev1.MaxUnavailableLimitReachedReason && !r.busy[e.Node]
}

// live is the number of slots that have not expired.
func (r *rollout) live() int {
	count := 0
	for _, e := range r.Enactments {
		if e.Slot.Expires.After(r.Now) {
			count++
		}
	}
	return count
}

// again is when the first slot expires, if a node waits.
func (r *rollout) again() time.Time {
	var first time.Time
	waiting := slices.ContainsFunc(r.Enactments, r.waits)
	for _, e := range r.Enactments {
		if at := e.Slot.Expires; waiting && at.After(r.Now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
