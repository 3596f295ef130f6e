// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// HostPortGranted reports whether pods of a tenant may use a port of a node, 1 to
// 65535, of a protocol (TCP, UDP or SCTP). Tenants of namespaces without a label need
// no grant.
func HostPortGranted(tx store.ReadTx, tenant, protocol string, port uint16) bool {
	return !Labelled(tenant) || slices.ContainsFunc(external.ListHostAccesses(tx), func(row *external.HostAccess) bool {
		return !row.Deleting && Lists(row.AllowedTenants, tenant) &&
			slices.ContainsFunc(row.Ports, func(r external.HostPortRange) bool {
				return (r.Protocol == "" || r.Protocol == protocol) && r.First <= port && port <= r.Last
			})
	})
}

// NodePortOwner is a Service that has ports of all nodes, with the tenant of its namespace.
type NodePortOwner struct{ Namespace, Name, Tenant string }

// OwnerOfNodePort returns the Service that has a port of all nodes, 1 to 65535, of a
// protocol (TCP, UDP or SCTP), as a node port or for health checks, in any VPC and with
// any proxy. It returns nil without such a Service. A node may know it by its ScaledEndpoint.
func OwnerOfNodePort(tx store.ReadTx, protocol string, port uint16) *NodePortOwner {
	for service := range store.ServicesByNodePort(tx, protocol, port) {
		owner := &NodePortOwner{Namespace: service.Namespace, Name: service.Name}
		if namespace := store.GetNamespace(tx, service.Namespace); namespace != nil {
			owner.Tenant = namespace.Tenant
		}
		return owner
	}
	for row := range scaled.ByNodePort(tx, protocol, port) {
		return &NodePortOwner{Namespace: row.Namespace, Name: row.Service, Tenant: row.Head.Tenant}
	}
	return nil
}
