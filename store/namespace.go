// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"github.com/alioth-net/alioth/store/memory"
)

// Namespace is the row of a Namespace object. Key: Name.
type Namespace struct {
	Meta
	Name   string
	Tenant string
	// Restricted reports that Pod Security refuses pods there that control their node.
	Restricted bool
}

var namespaces = memory.Define(memory.Table[Namespace]{
	Name: "namespace",
	Key:  func(n *Namespace) []byte { return memory.TextKey(n.Name) },
	Meta: func(n *Namespace) *Meta { return &n.Meta },
	Indexes: map[string]func(*Namespace) []byte{
		byTenant: func(n *Namespace) []byte { return memory.TextKey(n.Tenant) },
	},
})

// GetNamespace returns a Namespace, or nil.
func GetNamespace(tx ReadTx, name string) *Namespace {
	return namespaces.Get(tx, memory.TextKey(name))
}

// NamespacesByTenant returns the namespaces that a tenant owns, by name.
func NamespacesByTenant(tx ReadTx, tenant string) []*Namespace {
	return namespaces.List(tx, byTenant, memory.TextKey(tenant))
}

// ListNamespaces returns all namespaces by name.
func ListNamespaces(tx ReadTx) []*Namespace {
	return slices.Collect(namespaces.All(tx))
}

// PutNamespace inserts or replaces a namespace, and gives its tenant to the
// pods and Networks in it.
func PutNamespace(tx Tx, row *Namespace) error {
	what, err := namespaces.Put(tx, row)
	if err != nil || what != memory.NewContent {
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
	return namespaces.Remove(tx, memory.TextKey(name), uid) != nil
}
