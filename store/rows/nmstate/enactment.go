// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nmstate

import (
	"iter"
	"time"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// Phase is the condition of an enactment that is true.
type Phase string

// Phases of enactments. Their names equal names of conditions of package api/nmstate/v1.
const (
	Pending     = Phase("Pending")
	Progressing = Phase("Progressing")
	Available   = Phase("Available")
	Failing     = Phase("Failing")
	Aborted     = Phase("Aborted")
)

// Slot permits a node to change until it expires. The zero value permits nothing. An expired slot
// stays, and tells that the node had its turn. The operator alone writes slots, so a slot does
// not depend on trust in the node.
type Slot struct {
	Holder  string
	Expires time.Time
	// PolicyUID and Generation name the policy version of the slot.
	PolicyUID  string
	Generation int64
}

// For reports whether the slot was granted for this generation of a policy. A slot of an earlier
// version has no generation, and counts for all.
func (s Slot) For(p *Policy) bool {
	return s.Holder != "" && (s.PolicyUID == "" || s.PolicyUID == p.UID && s.Generation == p.Generation)
}

// Lives reports whether the slot permits the node to change now.
func (s Slot) Lives(node string, now time.Time) bool { return s.Holder == node && s.Expires.After(now) }

// Trial is a change of the applied state of a policy. After a failed trial the former state is
// applied again, so the policy does not keep other policies from the node.
type Trial struct {
	// Open: the state handler has not told yet how the change went.
	Open bool
	// Former is the state that was applied before, with its priority; nil for nothing.
	Former         map[string]any
	FormerPriority int32
	// Failures is the number of changes in a row that have failed. The next change is due at
	// Next. It is due earlier if Seen no longer equals the digest of the policy's inputs
	// (policy.Setting).
	Failures int
	Next     time.Time
	Seen     string
}

// Enactment is the row of a NodeNetworkConfigurationEnactment. Key: Name.
type Enactment struct {
	store.Meta
	Name string
	// Node and Policy are the subject of the enactment, and PolicyUID the UID of the policy.
	Node      string
	Policy    Reference
	PolicyUID string
	// PolicyGeneration is the generation of the policy that Desired, Captured, Phase,
	// Reason and Message are about.
	PolicyGeneration int64
	// Desired is the desired state of the policy, rendered for the node. Captured are the results
	// of its expressions, by name.
	Desired  map[string]any
	Captured map[string]map[string]any
	// Phase is "" before the first. Since is the begin of the phase.
	Phase           Phase
	Since           time.Time
	Reason, Message string
	// Applied is the part of the policy in the node's desired state, with its priority there; nil
	// for nothing.
	Applied         map[string]any
	AppliedPriority int32
	// Trial is the last change of Applied.
	Trial Trial
	// Keep leaves the node as it is when the policy ends.
	Keep bool
	// Before is the node's state before the policy was applied first, nil before that.
	Before map[string]any
	// Undoing is the state that restores Before while the policy ends, nil if it does not end.
	Undoing map[string]any
	// Overruled has the fields of the policy that others have, with their owners.
	Overruled string
	// Slot is written by the operator alone.
	Slot Slot
	// Invalid says why a document of the object can't be read, "" if all can.
	Invalid string
}

// byNode lists enactments by their node.
const byNode = "node"

var enactments = memory.Define(memory.Table[Enactment]{
	Name: "nodenetworkenactment",
	Key:  func(e *Enactment) []byte { return memory.TextKey(e.Name) },
	Meta: func(e *Enactment) *store.Meta { return &e.Meta },
	Indexes: map[string]func(*Enactment) []byte{
		byNode: func(e *Enactment) []byte { return memory.TextKey(e.Node, e.Name) },
	},
})

// GetEnactment returns an enactment, or nil.
func GetEnactment(tx store.ReadTx, name string) *Enactment {
	return enactments.Get(tx, memory.TextKey(name))
}

// Enactments yields all enactments, by name.
func Enactments(tx store.ReadTx) iter.Seq[*Enactment] { return enactments.All(tx) }

// EnactmentsOnNode returns the enactments of a node, by name.
func EnactmentsOnNode(tx store.ReadTx, node string) []*Enactment {
	return enactments.List(tx, byNode, memory.TextKey(node))
}

// PutEnactment inserts or replaces an enactment.
func PutEnactment(tx store.Tx, row *Enactment) error {
	_, err := enactments.Put(tx, row)
	return err
}

// DeleteEnactment removes an enactment if it has that UID, and reports whether it did.
func DeleteEnactment(tx store.Tx, name, uid string) bool {
	return enactments.Remove(tx, memory.TextKey(name), uid) != nil
}
