// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"iter"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// Grant is the row of a DelegationGrant. Key: Name.
type Grant struct {
	store.Meta
	Name string
	// Namespaces of networks, and Networks: the values of DelegationGrantSpec.
	Namespaces, Networks []string
	// FromNamespaces are namespaces whose definitions pods of Namespaces may use.
	FromNamespaces []string
	// Plugins and IPAM are types of plugins.
	Plugins, IPAM []string
	// Requests are keys of the annotation k8s.v1.cni.cncf.io/networks.
	Requests []string
	// Settings are keys of the annotation alioth.dev/sriov of a definition.
	Settings []string
}

// Lends reports whether pods of a namespace may use the definitions of another one.
func (g *Grant) Lends(namespace, lender string) bool {
	return slices.Contains(g.Namespaces, namespace) && slices.Contains(g.FromNamespaces, lender)
}

// Covers reports whether a network has the grant.
func (g *Grant) Covers(n store.NetworkRef) bool {
	return n.Namespace != "" && slices.Contains(g.Namespaces, n.Namespace) || g.Names(n)
}

// Names reports whether the grant names a network itself: a definition by namespace and
// name, others by their kind too.
func (g *Grant) Names(n store.NetworkRef) bool {
	name := n.Path()
	if n.Kind == KindDefinition {
		name = n.Namespace + "/" + n.Name
	}
	return slices.Contains(g.Networks, name)
}

var grants = memory.Define(memory.Table[Grant]{
	Name: "delegationgrant",
	Key:  func(g *Grant) []byte { return memory.TextKey(g.Name) },
	Meta: func(g *Grant) *store.Meta { return &g.Meta },
})

// GetGrant returns the DelegationGrant of that name, or nil.
func GetGrant(tx store.ReadTx, name string) *Grant { return grants.Get(tx, memory.TextKey(name)) }

// AllGrants yields the grants that count, by name.
func AllGrants(tx store.ReadTx) iter.Seq[*Grant] {
	return func(yield func(*Grant) bool) {
		for grant := range grants.All(tx) {
			if !grant.Deleting && !yield(grant) {
				return
			}
		}
	}
}

// PutGrant inserts or replaces a grant.
func PutGrant(tx store.Tx, row *Grant) error {
	_, err := grants.Put(tx, row)
	return err
}

// DeleteGrant removes a grant if it has that UID, and reports whether it did.
func DeleteGrant(tx store.Tx, name, uid string) bool {
	return grants.Remove(tx, memory.TextKey(name), uid) != nil
}
