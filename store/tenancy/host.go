// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/external"
)

// HostPortGranted reports whether pods of a tenant may use a port of a node, 1 to
// 65535, of a protocol (TCP, UDP or SCTP). Tenants of namespaces without a label need
// no grant.
func HostPortGranted(tx store.ReadTx, tenant, protocol string, port uint16) bool {
	return !Labelled(tenant) || slices.ContainsFunc(external.ListHostAccesses(tx), func(row *external.HostAccess) bool {
		return !row.Deleting && Lists(row.AllowedTenants, tenant) && slices.ContainsFunc(row.Ports, func(r external.HostPortRange) bool {
			return (r.Protocol == "" || r.Protocol == protocol) && r.First <= port && port <= r.Last
		})
	})
}

// OwnerOfNodePort returns the Service that has a port of all nodes, 1 to 65535, of a
// protocol (TCP, UDP or SCTP), as a node port or for health checks, in any VPC and with
// any proxy; nil if there is none.
func OwnerOfNodePort(tx store.ReadTx, protocol string, port uint16) *store.Service {
	for _, service := range store.ListServices(tx) {
		if HasNodePort(service, protocol, port) {
			return service
		}
	}
	return nil
}

// HasNodePort reports whether a Service has a port of all nodes.
func HasNodePort(service *store.Service, protocol string, port uint16) bool {
	return protocol == "TCP" && port != 0 && service.HealthCheckNodePort == port ||
		slices.ContainsFunc(service.Ports, func(p store.ServicePort) bool {
			return p.NodePort != 0 && p.NodePort == port && p.Protocol == protocol
		})
}
