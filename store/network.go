// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"slices"

	"github.com/alioth-net/alioth/store/memory"
)

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
	// NotIsolated is the message of the condition Isolated while that is False, else "".
	NotIsolated string
}

const byTenant = "tenant"

var networks = memory.Define(memory.Table[Network]{
	Name: "network",
	Key:  func(n *Network) []byte { return memory.TextKey(n.Namespace, n.Name) },
	Meta: func(n *Network) *Meta { return &n.Meta },
	Indexes: map[string]func(*Network) []byte{
		byTenant: func(n *Network) []byte { return memory.TextKey(n.Tenant, n.Name) },
		byVPC:    func(n *Network) []byte { return memory.TextKey(n.VPC, n.Tenant) },
	},
})

// GetNetwork returns a Network, or nil.
func GetNetwork(tx ReadTx, namespace, name string) *Network {
	return networks.Get(tx, memory.TextKey(namespace, name))
}

// NetworksByTenant returns the Networks in the tenant's namespaces, by name,
// then namespace.
func NetworksByTenant(tx ReadTx, tenant string) []*Network {
	return networks.List(tx, byTenant, memory.TextKey(tenant))
}

// NetworkByTenantName returns the Networks of that name in the tenant's
// namespaces in the order of their creation, then namespace: the first one serves.
func NetworkByTenantName(tx ReadTx, tenant, name string) []*Network {
	return networks.OldestFirst(tx, byTenant, memory.TextKey(tenant, name))
}

// NetworksByVPC returns the Networks that name the VPC, by tenant, then namespace and name.
func NetworksByVPC(tx ReadTx, vpc string) []*Network {
	return networks.List(tx, byVPC, memory.TextKey(vpc))
}

// NetworksByVPCAndTenant returns the Networks of a tenant that name the VPC, by namespace and
// name.
func NetworksByVPCAndTenant(tx ReadTx, vpc, tenant string) []*Network {
	return networks.List(tx, byVPC, memory.TextKey(vpc, tenant))
}

// TenantsNamingVPC returns the tenants whose Networks name the VPC. It reads one Network of
// each tenant: a tenant can make any number.
func TenantsNamingVPC(tx ReadTx, vpc string) (tenants []string) {
	next := memory.TextKey(vpc)
	for {
		first := firstOf(networks.From(tx, byVPC, next))
		if first == nil || first.VPC != vpc {
			return tenants
		}
		tenants = append(tenants, first.Tenant)
		next = memory.TextKey(vpc, first.Tenant)
		next[len(next)-1]++ // behind all keys of the tenant
	}
}

// firstOf returns the first row, or nil.
func firstOf[R any](rows iter.Seq[*R]) *R {
	for row := range rows {
		return row
	}
	return nil
}

// NetworksByNamespace returns the Networks of a namespace by name.
func NetworksByNamespace(tx ReadTx, namespace string) []*Network {
	return networks.List(tx, memory.Primary, memory.TextKey(namespace))
}

// ListNetworks returns all Networks by namespace and name.
func ListNetworks(tx ReadTx) []*Network {
	return slices.Collect(networks.All(tx))
}

// PutNetwork inserts or replaces a Network. Where the row of its Namespace is
// known, the tenant is taken from there.
func PutNetwork(tx Tx, row *Network) error {
	if ns := GetNamespace(tx, row.Namespace); ns != nil && ns.Tenant != row.Tenant {
		follow := *row
		follow.Tenant = ns.Tenant
		row = &follow
	}
	_, err := networks.Put(tx, row)
	return err
}

// DeleteNetwork removes a Network if it has that UID, and reports whether it
// did.
func DeleteNetwork(tx Tx, namespace, name, uid string) bool {
	return networks.Remove(tx, memory.TextKey(namespace, name), uid) != nil
}
