// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// HostAccess is the row of a HostAccess object. Key: Name.
type HostAccess struct {
	store.Meta
	Name           string
	AllowedTenants []string
	// Ports of nodes that pods of these tenants may ask for.
	Ports []HostPortRange
	// HostNetwork lets them be on the nodes' network.
	HostNetwork bool
	Ready       bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

// HostPortRange are ports of a node.
type HostPortRange struct {
	// Protocol is TCP, UDP or SCTP; "" for all of them.
	Protocol string
	// First and Last are both in the range, 1 to 65535.
	First, Last uint16
}

var hostAccesses = memory.Define(memory.Table[HostAccess]{
	Name: "hostaccess",
	Key:  func(a *HostAccess) []byte { return memory.TextKey(a.Name) },
	Meta: func(a *HostAccess) *store.Meta { return &a.Meta },
})

// GetHostAccess returns the HostAccess object of that name, or nil.
func GetHostAccess(tx store.ReadTx, name string) *HostAccess {
	return hostAccesses.Get(tx, memory.TextKey(name))
}

// ListHostAccesses returns all HostAccess objects in the order of their creation,
// then name.
func ListHostAccesses(tx store.ReadTx) []*HostAccess {
	return hostAccesses.OldestFirst(tx, memory.Primary, []byte{})
}

// PutHostAccess inserts or replaces a HostAccess.
func PutHostAccess(tx store.Tx, row *HostAccess) error {
	_, err := hostAccesses.Put(tx, row)
	return err
}

// DeleteHostAccess removes a HostAccess if it has that UID, and reports whether it
// did.
func DeleteHostAccess(tx store.Tx, name, uid string) bool {
	return hostAccesses.Remove(tx, memory.TextKey(name), uid) != nil
}
