// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Grants reports whether a tenant may use an ExternalPool. An empty list of tenants
// allows no tenant.
func Grants(pool *external.Pool, tenant string) bool {
	return !pool.Deleting && tenancy.Lists(pool.AllowedTenants, tenant)
}

// Contains reports whether an ExternalPool has an address.
func Contains(pool *external.Pool, ip netip.Addr) bool {
	return slices.ContainsFunc(pool.Ranges, func(r store.AddrRange) bool {
		return r.First.Is4() == ip.Is4() && !ip.Less(r.First) && !r.Last.Less(ip)
	})
}

// ExternalIPs returns the addresses of spec.externalIPs that a Service may have, in the order of
// the spec: addresses that its tenant owns, and that no load balancer holds.
func ExternalIPs(tx store.ReadTx, service *store.Service) []netip.Addr {
	if len(service.ExternalIPs) == 0 || service.Deleting {
		return nil
	}
	mine, ok := tenantOf(tx, service)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(service.ExternalIPs), func(ip netip.Addr) bool {
		return external.GetAddress(tx, ip) != nil || OwnerOfExternalIP(tx, ip) != mine
	})
}

// OwnerOfExternalIP returns the tenant that owns an address of spec.externalIPs. The oldest
// Service that names the address decides, if a pool grants the address to the tenant of the
// Service. The pool is Ready, so the address is outside of the service ranges and the default
// VPC, and no node has it. The function returns "" for an address of nobody.
func OwnerOfExternalIP(tx store.ReadTx, ip netip.Addr) string {
	pools := slices.DeleteFunc(external.ListPools(tx), func(pool *external.Pool) bool {
		return !pool.ForExternalIPs || !pool.Ready || !Contains(pool, ip)
	})
	if len(pools) == 0 {
		return ""
	}
	for service := range store.ServicesNaming(tx, ip) {
		tenant, ok := tenantOf(tx, service)
		if ok && !service.Deleting &&
			slices.ContainsFunc(pools, func(pool *external.Pool) bool { return Grants(pool, tenant) }) {
			return tenant
		}
	}
	return ""
}

func tenantOf(tx store.ReadTx, service *store.Service) (string, bool) {
	ns := store.GetNamespace(tx, service.Namespace)
	if ns == nil {
		return "", false
	}
	return ns.Tenant, true
}

// ReadyOn returns the nodes with a ready pod of the site's VPC that counts as an endpoint of a
// Service. These nodes answer for the Service under externalTrafficPolicy Local.
func ReadyOn(tx store.ReadTx, at Site, service *store.Service) map[string]bool {
	nodes := map[string]bool{}
	for _, slice := range slicesIn(tx, at.VPC, service) {
		for i := range slice.Endpoints {
			endpoint := &slice.Endpoints[i]
			for _, ip := range endpoint.Addresses {
				if held := backendAt(tx, at.VPC, service, endpoint, ip); held != nil && endpoint.Ready {
					nodes[held.Node] = true
				} else if endpoint.Ready && mayBeOnHost(tx, at, endpoint, ip) {
					nodes[endpoint.Node] = true
				}
			}
		}
	}
	return nodes
}
