// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nmstate

import (
	"iter"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// State is the row of a NodeNetworkState. Key: Name.
type State struct {
	store.Meta
	// Name is the name of the node.
	Name string
	// Managed is false for a node that is left alone.
	Managed bool
	// Desired is the desired state, and FromPolicies the part that policies wrote into it; nil
	// without one.
	Desired, FromPolicies map[string]any
	// Reach are the targets that the node has to reach after a change, as people set them, and
	// PolicyReach has the targets of all policies. Each part has the targets of its own policies.
	Reach, PolicyReach []string
	// Parts are enforced each by itself; nil if everything is enforced together.
	Parts []Part
	// Current is the current state, nil until it was reported.
	Current map[string]any
	// ObservedGeneration is the generation whose desired state was enforced last, with
	// success or not.
	ObservedGeneration int64
	// Available and Failing are conditions. Reason and Message come from the condition that is
	// true, or from Available if both are false.
	Available, Failing bool
	Reason, Message    string
	// Failures are the parts that the node does not have.
	Failures []Failure
	// Invalid says why a document of the object can't be read, "" if all can.
	Invalid string
}

// Part is a part of a desired state: it is enforced together.
type Part struct {
	// Paths are the paths of the elements in the part, sorted.
	Paths []string
	// Reach are the targets that the node has to reach after a change of the part.
	Reach []string
}

// Equal reports whether two parts are the same.
func (p Part) Equal(other Part) bool {
	return slices.Equal(p.Paths, other.Paths) && slices.Equal(p.Reach, other.Reach)
}

// Failure is a part of a desired state that the node does not have.
type Failure struct {
	// Path is the first path of the part, "" for an element outside of all parts.
	Path    string
	Message string
}

// Observed reports whether the state handler has enforced the desired state of this
// generation, with success or not.
func (s *State) Observed() bool { return s.ObservedGeneration == s.Generation }

var states = memory.Define(memory.Table[State]{
	Name: "nodenetworkstate",
	Key:  func(s *State) []byte { return memory.TextKey(s.Name) },
	Meta: func(s *State) *store.Meta { return &s.Meta },
})

// GetState returns the state of a node, or nil.
func GetState(tx store.ReadTx, node string) *State { return states.Get(tx, memory.TextKey(node)) }

// States yields all states by name.
func States(tx store.ReadTx) iter.Seq[*State] { return states.All(tx) }

// PutState inserts or replaces a state.
func PutState(tx store.Tx, row *State) error {
	_, err := states.Put(tx, row)
	return err
}

// DeleteState removes a state if it has that UID, and reports whether it did.
func DeleteState(tx store.Tx, node, uid string) bool {
	return states.Remove(tx, memory.TextKey(node), uid) != nil
}
