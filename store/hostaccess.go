// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

var hostAccesses = &table[HostAccess]{
	name: "hostaccess",
	key:  func(a *HostAccess) []byte { return textKey(a.Name) },
	meta: func(a *HostAccess) *Meta { return &a.Meta },
}

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
