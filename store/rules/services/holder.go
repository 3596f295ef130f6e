// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"net/netip"

	"github.com/alioth-net/alioth/store"
)

// backendAt returns the Address of a VPC behind an endpoint's address if the Service may lead
// there, else nil.
//
// The address alone does not identify its holder: a pod of another VPC may have it too, and
// Kubernetes writes the slices of a selector without regard to VPCs. So with a selector the pod
// that the endpoint names must hold the Address. It must also be of the Service's namespace, as
// each pod that a selector finds is: a tenant may write slices with any UID in it. The same holds
// for the slices that the operator makes of annotations. In a slice written by hand, the writer
// has chosen the pod, and the pod must be of the Service's tenant.
func backendAt(
	tx store.ReadTx,
	vpc string,
	service *store.Service,
	endpoint *store.Endpoint,
	ip netip.Addr,
) *store.Address {
	held := heldByPod(tx, vpc, ip)
	switch {
	case held == nil:
		return nil
	case byHand(service, endpoint) && isOfTenant(tx, service, held.Holder.Namespace):
		return held
	case !byHand(service, endpoint) && held.Holder.UID == endpoint.PodUID && held.Holder.Namespace == service.Namespace:
		return held
	}
	return nil
}

// byHand reports whether a user has chosen the address of an endpoint: the Service has no
// selector, and the slice does not say that the endpoint is for its pod alone.
func byHand(service *store.Service, endpoint *store.Endpoint) bool {
	return service.Selectorless && !endpoint.Named
}

// heldByPod returns the Address of a pod that has the IP in the VPC, or nil. A load
// balancer's address leads to no machine, a node's own leads to the node, and the datapath
// does not lead to one of another CNI plugin.
func heldByPod(tx store.ReadTx, vpc string, ip netip.Addr) *store.Address {
	held := store.AddressByIP(tx, vpc, ip)
	if held == nil || held.Holder.Kind != store.HolderPod || held.Holder.UID == "" || held.External {
		return nil
	}
	return held
}

// isOfTenant reports whether a namespace is one of the tenant of a Service.
func isOfTenant(tx store.ReadTx, service *store.Service, namespace string) bool {
	tenant, ok := tenantOf(tx, service)
	ns := store.GetNamespace(tx, namespace)
	return ok && ns != nil && ns.Tenant == tenant
}
