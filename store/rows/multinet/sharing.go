// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/alioth-net/alioth/store"
)

// Sharing is whose definitions are for others. Beside it grants lend definitions. Only
// administrators write both.
type Sharing struct {
	// Global are namespaces whose definitions pods of all namespaces may use.
	Global []string
}

// Shares reports whether a pod of a namespace and its tenant may name the definitions of a
// namespace: its own namespace, another namespace of its tenant, a global one, or a namespace
// that a grant lends.
func (s Sharing) Shares(tx store.ReadTx, namespace, tenant, lender string) bool {
	if lender == namespace || slices.Contains(s.Global, lender) {
		return true
	}
	if row := store.GetNamespace(tx, lender); row != nil && row.Tenant != "" && row.Tenant == tenant {
		return true
	}
	for grant := range AllGrants(tx) {
		if grant.Lends(namespace, lender) {
			return true
		}
	}
	return false
}

// GrantsFor returns the grants for interfaces of pods of a namespace in a network, by name.
// A grant that covers a network of another namespace is for pods of a namespace only where
// it lends to that one, or where the network is in a global namespace.
func (s Sharing) GrantsFor(tx store.ReadTx, namespace string, n store.NetworkRef) []*Grant {
	foreign := n.Namespace != "" && n.Namespace != namespace
	open := !foreign || slices.Contains(s.Global, n.Namespace)
	var list []*Grant
	for grant := range AllGrants(tx) {
		if open && grant.Covers(n) || foreign && grant.Lends(namespace, n.Namespace) {
			list = append(list, grant)
		}
	}
	return list
}

// CheckNamespaces returns an error if a name is not one of a namespace.
func CheckNamespaces(names []string) error {
	for _, name := range names {
		if !namespaceName.MatchString(name) {
			return fmt.Errorf("%.80q is no name of a namespace", name)
		}
	}
	return nil
}

// namespaceName matches a DNS label (RFC 1123).
var namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Uses reports whether pods of any namespace may have interfaces in a network by a grant.
func (g *Grant) Uses(n store.NetworkRef) bool {
	return g.Covers(n) || len(g.Namespaces) > 0 && slices.Contains(g.FromNamespaces, n.Namespace)
}
