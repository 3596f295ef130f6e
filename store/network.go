// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

// Network is the row of a Network object. Key: (Namespace, Name).
type Network struct {
	Meta
	Namespace, Name string
	// Tenant that owns the namespace; kept up to date with Namespace rows.
	Tenant string
	Type   string
	// VPC is spec.vpcID, which need not exist.
	VPC   string
	Ready bool
	// Reason and Message of the Ready condition.
	Reason, Message string
	// NameConflict is the message of that condition, "" without one.
	NameConflict string
}

const byTenant = "tenant"

var networks = define(table[Network]{
	name: "network",
	key:  func(n *Network) []byte { return textKey(n.Namespace, n.Name) },
	meta: func(n *Network) *Meta { return &n.Meta },
	indexes: map[string]func(*Network) []byte{
		byTenant: func(n *Network) []byte { return textKey(n.Tenant, n.Name) },
		byVPC:    func(n *Network) []byte { return textKey(n.VPC) },
	},
})

// GetNetwork returns a Network, or nil.
func GetNetwork(tx ReadTx, namespace, name string) *Network {
	return networks.get(tx, textKey(namespace, name))
}

// NetworksByTenant returns the Networks in the tenant's namespaces, by name,
// then namespace.
func NetworksByTenant(tx ReadTx, tenant string) []*Network {
	return networks.list(tx, byTenant, textKey(tenant))
}

// NetworkByTenantName returns the Networks of that name in the tenant's
// namespaces in the order of their creation, then namespace: the first one serves.
func NetworkByTenantName(tx ReadTx, tenant, name string) []*Network {
	return networks.oldestFirst(tx, byTenant, textKey(tenant, name))
}

// NetworksByVPC returns the Networks that name the VPC, by namespace and name.
func NetworksByVPC(tx ReadTx, vpc string) []*Network {
	return networks.list(tx, byVPC, textKey(vpc))
}

// NetworksByNamespace returns the Networks of a namespace by name.
func NetworksByNamespace(tx ReadTx, namespace string) []*Network {
	return networks.list(tx, primary, textKey(namespace))
}

// ListNetworks returns all Networks by namespace and name.
func ListNetworks(tx ReadTx) []*Network {
	return slices.Collect(networks.all(tx))
}

// PutNetwork inserts or replaces a Network. Where the row of its Namespace is
// known, the tenant is taken from there.
func PutNetwork(tx Tx, row *Network) error {
	if ns := GetNamespace(tx, row.Namespace); ns != nil && ns.Tenant != row.Tenant {
		follow := *row
		follow.Tenant = ns.Tenant
		row = &follow
	}
	_, err := networks.put(tx, row)
	return err
}

// DeleteNetwork removes a Network if it has that UID, and reports whether it
// did.
func DeleteNetwork(tx Tx, namespace, name, uid string) bool {
	return networks.remove(tx, textKey(namespace, name), uid) != nil
}
