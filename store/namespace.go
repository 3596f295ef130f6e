// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

// Namespace is the row of a Namespace object. Key: Name.
type Namespace struct {
	Meta
	Name   string
	Tenant string
}

var namespaces = define(table[Namespace]{
	name: "namespace",
	key:  func(n *Namespace) []byte { return textKey(n.Name) },
	meta: func(n *Namespace) *Meta { return &n.Meta },
	indexes: map[string]func(*Namespace) []byte{
		byTenant: func(n *Namespace) []byte { return textKey(n.Tenant) },
	},
})

// GetNamespace returns a Namespace, or nil.
func GetNamespace(tx ReadTx, name string) *Namespace {
	return namespaces.get(tx, textKey(name))
}

// NamespacesByTenant returns the namespaces that a tenant owns, by name.
func NamespacesByTenant(tx ReadTx, tenant string) []*Namespace {
	return namespaces.list(tx, byTenant, textKey(tenant))
}

// ListNamespaces returns all namespaces by name.
func ListNamespaces(tx ReadTx) []*Namespace {
	return slices.Collect(namespaces.all(tx))
}

// PutNamespace inserts or replaces a namespace, and gives its tenant to the
// pods and Networks in it.
func PutNamespace(tx Tx, row *Namespace) error {
	what, err := namespaces.put(tx, row)
	if err != nil || what != changeContent {
		return err
	}
	for _, held := range NetworksByNamespace(tx, row.Name) {
		if err := PutNetwork(tx, held); err != nil {
			return err
		}
	}
	for _, held := range PodsByNamespace(tx, row.Name) {
		if err := PutPod(tx, held); err != nil {
			return err
		}
	}
	return nil
}

// DeleteNamespace removes a namespace if it has that UID, and reports whether it did.
// Objects that remain in it keep their tenant.
func DeleteNamespace(tx Tx, name, uid string) bool {
	return namespaces.remove(tx, textKey(name), uid) != nil
}
