// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/enact"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// rows are those that a pass for a node decides on.
type rows struct {
	policies   []*nmstate.Policy
	enactments []*nmstate.Enactment
	state      *nmstate.State
	// selection is the selection of the node's row, 0 without a row.
	selection uint64
}

func readRows(tx store.ReadTx, node string) rows {
	r := rows{
		policies: slices.Collect(nmstate.Policies(tx)), enactments: nmstate.EnactmentsOnNode(tx, node),
		state: nmstate.GetState(tx, node),
	}
	if row := store.GetNode(tx, node); row != nil {
		r.selection = row.Selection
	}
	return r
}

// equal reports whether both are the same rows: a changed row is a new object.
func (r rows) equal(other rows) bool {
	return slices.Equal(r.policies, other.policies) && slices.Equal(r.enactments, other.enactments) &&
		r.state == other.state && r.selection == other.selection
}

// begins reports whether a policy may change the node now for the first time in its slot.
func (r rows) begins(node string, now time.Time) bool {
	return slices.ContainsFunc(r.enactments, func(e *nmstate.Enactment) bool {
		return e.Phase == nmstate.Pending && e.Slot.Lives(node, now)
	})
}

func (r rows) situation(object *corev1.Node, stuck map[nmstate.Reference]bool, now time.Time) enact.Situation {
	node := policyNode(object)
	if r.state != nil {
		node.Current = r.state.Current
	}
	return enact.Situation{
		Node:       node,
		Policies:   r.policies,
		Enactments: r.enactments,
		State:      r.state,
		Stuck:      stuck,
		Now:        now,
	}
}

// orphans are enactments whose policy has no row, or one with another UID, and that are not
// being undone yet.
func (r rows) orphans() []*nmstate.Enactment {
	var list []*nmstate.Enactment
	for _, e := range r.enactments {
		has := func(p *nmstate.Policy) bool { return p.Spec.Reference == e.Policy && p.UID == e.PolicyUID }
		if e.Undoing == nil && !slices.ContainsFunc(r.policies, has) {
			list = append(list, e)
		}
	}
	return list
}

// policyNode has what policies can ask of a node but for its current state.
func policyNode(object *corev1.Node) policy.Node {
	node := policy.Node{Name: object.Name, Labels: object.Labels}
	for _, taint := range object.Spec.Taints {
		node.Taints = append(node.Taints, policy.Taint{Key: taint.Key, Value: taint.Value, Effect: string(taint.Effect)})
	}
	for _, condition := range object.Status.Conditions {
		node.Down = node.Down || condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue
	}
	return node
}
