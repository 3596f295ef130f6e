// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// SlotTime is how long a slot lives: longer than a transaction with its verification and
// rollback takes.
const SlotTime = 5 * time.Minute

// Situation has the facts about one node.
type Situation struct {
	// Node is the node. Its current state is in State.
	Node policy.Node
	// Policies are all that there are, and Enactments all of the node.
	Policies   []*nmstate.Policy
	Enactments []*nmstate.Enactment
	// State is nil until the node's state handler has made it.
	State *nmstate.State
	// Stuck are the policies whose enactments can't be written. These stay as they are, and so
	// does what they have of the node's desired state.
	Stuck map[nmstate.Reference]bool
	Now   time.Time
}

// Changes are the wanted contents of a node's objects. They are written in the order of the
// fields. An enactment says which settings will be applied, and which were there before, and it
// is written before the node's desired state. After an enactment that could not be written, the
// desired state is not written either. Another desired state, made with the enactment among the
// Stuck, is written.
type Changes struct {
	// Put are enactments, whole but for their slots, which nobody but the operator writes.
	// One without a UID is new.
	Put []nmstate.Enactment
	// Desired is the new specification of the node's state, nil if it stays.
	Desired *Desired
	// Owners is the new status of the node's state about policies. Its writer compares it with
	// the present status.
	Owners Owners
	// Delete are enactments that are over.
	Delete []*nmstate.Enactment
	// Again is when time alone changes the result, zero for never.
	Again time.Time
}

// Desired is the specification of a node's state.
type Desired struct {
	// State is the whole desired state, and FromPolicies what policies have of it.
	State, FromPolicies map[string]any
	// Reach are the targets that the node has to reach for its policies. Parts have the targets
	// of their own policies.
	Reach []string
	// Parts are enforced each by itself; nil if everything is enforced together.
	Parts []nmstate.Part
	// ResourceVersion of the object that it was made of: it replaces no other one.
	ResourceVersion string
}

// Owners names the owner of each part of a node's desired state.
type Owners struct {
	// List is cut after a number of entries, More is the number of those left out.
	List []policy.Owner
	More int
	// Conflict has the fields that policies do not have although they set them, and whose
	// they are; "" without any.
	Conflict string
}

// Nodes has the facts about all nodes of a policy.
type Nodes struct {
	Policy *nmstate.Policy
	// Nodes are all nodes of the cluster; their current states need not be known.
	Nodes []policy.Node
	// Enactments are all of the policy.
	Enactments []*nmstate.Enactment
	// Others are the enactments of all other policies. A node whose enactment of a policy
	// that comes before this one is missing, waits or changes gets no slot for this one.
	Others []*nmstate.Enactment
	// Policies are all policies, for their order.
	Policies []*nmstate.Policy
	Now      time.Time
}

// Rolled holds the next step of the rollout of a policy over all nodes: the granted and the
// released slots, and the status.
type Rolled struct {
	// Grant are enactments that get a slot until Expires, and Release those whose slot is
	// needed no longer.
	Grant   []*nmstate.Enactment
	Release []*nmstate.Enactment
	Expires time.Time
	Status  Status
	// Again is when time alone changes the result, zero for never.
	Again time.Time
}

// Status is the status of a policy. Condition is the type of the condition that is true
// (Available, Degraded, Progressing or Ignored of package api/nmstate/v1).
type Status struct {
	Condition, Reason, Message string
	// Conflict is the message of the condition Conflict, "" if it is false.
	Conflict string
	// Changing is the number of nodes that change now.
	Changing int
}

// LastSlot is the node that gets a slot last, "" for none.
func (r Rolled) LastSlot() string {
	if len(r.Grant) == 0 {
		return ""
	}
	return r.Grant[len(r.Grant)-1].Node
}

// Granted is the slot of a node.
func (r Rolled) Granted(p *nmstate.Policy, node string) nmstate.Slot {
	return nmstate.Slot{Holder: node, Expires: r.Expires, PolicyUID: p.UID, Generation: p.Generation}
}

// Ended is a slot that is taken back. It has expired for the clock of every node, and still
// tells that the node had its turn.
func Ended(slot nmstate.Slot) nmstate.Slot {
	slot.Expires = slot.Expires.Add(-SlotTime)
	return slot
}
