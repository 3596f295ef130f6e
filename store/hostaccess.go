// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

// HostAccess is the row of a HostAccess object. Key: Name.
type HostAccess struct {
	Meta
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

var hostAccesses = define(table[HostAccess]{
	name: "hostaccess",
	key:  func(a *HostAccess) []byte { return textKey(a.Name) },
	meta: func(a *HostAccess) *Meta { return &a.Meta },
})

// GetHostAccess returns the HostAccess object of that name, or nil.
func GetHostAccess(tx ReadTx, name string) *HostAccess {
	return hostAccesses.get(tx, textKey(name))
}

// ListHostAccesses returns all HostAccess objects in the order of their creation,
// then name.
func ListHostAccesses(tx ReadTx) []*HostAccess {
	return hostAccesses.oldestFirst(tx, primary, []byte{})
}

// PutHostAccess inserts or replaces a HostAccess.
func PutHostAccess(tx Tx, row *HostAccess) error {
	_, err := hostAccesses.put(tx, row)
	return err
}

// DeleteHostAccess removes a HostAccess if it has that UID, and reports whether it
// did.
func DeleteHostAccess(tx Tx, name, uid string) bool {
	return hostAccesses.remove(tx, textKey(name), uid) != nil
}
