// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/external"
	"github.com/alioth-net/alioth/store/tenancy"
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

// ExternalIPs returns the addresses of spec.externalIPs that a Service may have, in
// the order of the spec: those that a pool for them grants to its tenant, which is
// Ready, so that they are no service range's, no node's and none of the default VPC;
// that no load balancer holds; and that no older Service of another tenant names,
// which is granted them too.
func ExternalIPs(tx store.ReadTx, service *store.Service) []netip.Addr {
	if service.Deleting {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(service.ExternalIPs), func(ip netip.Addr) bool {
		return !granted(tx, service, ip) || external.GetAddress(tx, ip) != nil || named(tx, service, ip)
	})
}

// granted reports whether a pool gives an address to the tenant of a Service.
func granted(tx store.ReadTx, service *store.Service, ip netip.Addr) bool {
	tenant, ok := tenantOf(tx, service)
	return ok && slices.ContainsFunc(external.ListPools(tx), func(pool *external.Pool) bool {
		return pool.ForExternalIPs && pool.Ready && Grants(pool, tenant) && Contains(pool, ip)
	})
}

// named reports whether an older Service of another tenant has an address.
func named(tx store.ReadTx, service *store.Service, ip netip.Addr) bool {
	mine, _ := tenantOf(tx, service)
	return slices.ContainsFunc(store.ServicesWithExternalIPs(tx), func(other *store.Service) bool {
		theirs, ok := tenantOf(tx, other)
		return ok && theirs != mine && slices.Contains(other.ExternalIPs, ip) && !other.Deleting &&
			Age(other, service) < 0 && granted(tx, other, ip)
	})
}

func tenantOf(tx store.ReadTx, service *store.Service) (string, bool) {
	ns := store.GetNamespace(tx, service.Namespace)
	if ns == nil {
		return "", false
	}
	return ns.Tenant, true
}

// ReadyOn returns the nodes on which a pod of the site's VPC that counts as an endpoint
// of a Service is ready: those that answer for it under externalTrafficPolicy Local.
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
