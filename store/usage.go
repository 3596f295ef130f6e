// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"

	"github.com/alioth-net/alioth/store/memory"
)

// Usage is the row of a Usage object, as far as somebody reads it. Key: Name.
type Usage struct {
	Meta
	Name string
	// Kind of its Subnet or VPC, and Of, the name.
	Kind, Of string
	// OwnerUID is the UID of the Subnet or VPC that the figures are of. A successor of the
	// same name has another one.
	OwnerUID string
	// Cursors are the last addresses that the operator chose, at most one per family.
	Cursors []netip.Addr
}

const byOwnerUID = "owner-uid"

var usages = memory.Define(memory.Table[Usage]{
	Name: "usage",
	Key:  func(u *Usage) []byte { return memory.TextKey(u.Name) },
	Meta: func(u *Usage) *Meta { return &u.Meta },
	Indexes: map[string]func(*Usage) []byte{
		byOwnerUID: func(u *Usage) []byte { return memory.TextKey(u.OwnerUID) },
	},
})

// GetUsage returns the Usage object of that name, or nil.
func GetUsage(tx ReadTx, name string) *Usage {
	return usages.Get(tx, memory.TextKey(name))
}

// PutUsage inserts or replaces a usage.
func PutUsage(tx Tx, row *Usage) error {
	_, err := usages.Put(tx, row)
	return err
}

// DeleteUsage removes a usage if it has that UID, and reports whether it did.
func DeleteUsage(tx Tx, name, uid string) bool {
	return usages.Remove(tx, memory.TextKey(name), uid) != nil
}

// writtenCursors are the last chosen addresses of a subnet as the API has them.
func writtenCursors(tx ReadTx, subnet *Subnet) []netip.Addr {
	for _, usage := range usages.List(tx, byOwnerUID, memory.TextKey(subnet.UID)) {
		if len(usage.Cursors) > 0 {
			return usage.Cursors
		}
	}
	return subnet.Cursors
}
