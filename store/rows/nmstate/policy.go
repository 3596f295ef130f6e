// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nmstate

import (
	"iter"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// Policy is the row of a policy of either kind. Key: (Spec.Kind, Spec.Name).
type Policy struct {
	store.Meta
	// Spec is the spec of the policy; Meta has its UID and generation.
	Spec PolicySpec
	// Capture has expressions by name.
	Capture map[string]string
	// Unavailable is the number of nodes that may change at the same time.
	Unavailable Unavailable
	// Keep leaves the nodes as they are when the policy is deleted.
	Keep bool
	// Degraded is a condition of the status. Reason and Message come from the condition that is
	// true.
	Degraded        bool
	Reason, Message string
	// Aborted: the operator found that too many nodes failed with this generation.
	Aborted bool
	// LastSlot is the node that got a slot last, "" for none.
	LastSlot string
	// Fault says why the desired state can't be read, "" if it can.
	Fault string
}

var policies = memory.Define(memory.Table[Policy]{
	Name: "nodenetworkpolicy",
	Key:  func(p *Policy) []byte { return memory.TextKey(p.Spec.Kind, p.Spec.Name) },
	Meta: func(p *Policy) *store.Meta { return &p.Meta },
})

// GetPolicy returns a policy, or nil.
func GetPolicy(tx store.ReadTx, ref Reference) *Policy {
	return policies.Get(tx, memory.TextKey(ref.Kind, ref.Name))
}

// Policies yields all policies by kind and name.
func Policies(tx store.ReadTx) iter.Seq[*Policy] { return policies.All(tx) }

// PutPolicy inserts or replaces a policy.
func PutPolicy(tx store.Tx, row *Policy) error {
	_, err := policies.Put(tx, row)
	return err
}

// DeletePolicy removes a policy if it has that UID, and reports whether it did.
func DeletePolicy(tx store.Tx, ref Reference, uid string) bool {
	return policies.Remove(tx, memory.TextKey(ref.Kind, ref.Name), uid) != nil
}
