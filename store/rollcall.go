// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

// RollCall is the row of a RollCall object. Key: Name.
type RollCall struct {
	Meta
	Name string
	Call string
	// VNIs that a node says it holds.
	VNIs []uint32
	// NodeUID is the UID of the Node that owns the object, or "".
	NodeUID string
}

var rollCalls = define(table[RollCall]{
	name: "rollcall",
	key:  func(r *RollCall) []byte { return textKey(r.Name) },
	meta: func(r *RollCall) *Meta { return &r.Meta },
})

// GetRollCall returns the RollCall object of that name, or nil.
func GetRollCall(tx ReadTx, name string) *RollCall {
	return rollCalls.get(tx, textKey(name))
}

// ListRollCalls returns all RollCall objects by name.
func ListRollCalls(tx ReadTx) []*RollCall {
	return slices.Collect(rollCalls.all(tx))
}

// PutRollCall inserts or replaces a RollCall.
func PutRollCall(tx Tx, row *RollCall) error {
	_, err := rollCalls.put(tx, row)
	return err
}

// DeleteRollCall removes a RollCall if it has that UID, and reports whether it
// did.
func DeleteRollCall(tx Tx, name, uid string) bool {
	return rollCalls.remove(tx, textKey(name), uid) != nil
}
