// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "github.com/alioth-net/alioth/store/memory"

// RollCall is the row of a RollCall object. Key: Name.
type RollCall struct {
	Meta
	Name string
	Call string
	// VNIs that a node reports to use.
	VNIs []uint32
	// NodeUID is the UID of the Node that owns the object, or "".
	NodeUID string
}

var rollCalls = memory.Define(memory.Table[RollCall]{
	Name: "rollcall",
	Key:  func(r *RollCall) []byte { return memory.TextKey(r.Name) },
	Meta: func(r *RollCall) *Meta { return &r.Meta },
})

// GetRollCall returns the RollCall object of that name, or nil.
func GetRollCall(tx ReadTx, name string) *RollCall {
	return rollCalls.Get(tx, memory.TextKey(name))
}

// PutRollCall inserts or replaces a RollCall.
func PutRollCall(tx Tx, row *RollCall) error {
	_, err := rollCalls.Put(tx, row)
	return err
}

// DeleteRollCall removes a RollCall if it has that UID, and reports whether it
// did.
func DeleteRollCall(tx Tx, name, uid string) bool {
	return rollCalls.Remove(tx, memory.TextKey(name), uid) != nil
}
