// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package services finds the Services that belong to a VPC, with their virtual
// addresses and the backends behind these. Mizar's term for such a Service is "scaled
// endpoint". The package is pure: it reads a snapshot of the store and nothing else.
//
// Services and EndpointSlices are written by tenants. So an address in a slice counts
// only if an Address object of the VPC names the right pod as its holder, with its
// node, or if the VPC's egress allows it.
package services

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Services returns the Services with a virtual address that belong to a VPC, by
// namespace and name. The VPC need not be Ready for new pods: running pods keep their
// Services.
func Services(tx store.ReadTx, vpc *store.VPC, defaultVPC string) []*store.Service {
	var all []*store.Service
	seen := map[label]bool{}
	for _, tenant := range store.TenantsNamingVPC(tx, vpc.Name) {
		if !tenancy.Allows(vpc, tenant) {
			continue // it may have any number of Networks
		}
		namespaces := store.NamespacesByTenant(tx, tenant)
		for _, net := range store.NetworksByVPCAndTenant(tx, vpc.Name, tenant) {
			for _, ns := range namespaces {
				all = append(all, labelled(tx, vpc, defaultVPC, label{ns.Name, net.Name}, seen)...)
				if net.Name == arktosv1.DefaultNetwork {
					all = append(all, labelled(tx, vpc, defaultVPC, label{ns.Name, ""}, seen)...)
				}
			}
		}
	}
	if vpc.Name == defaultVPC {
		for _, ns := range store.ListNamespaces(tx) {
			all = append(all, labelled(tx, vpc, defaultVPC, label{ns.Name, ""}, seen)...)
		}
	}
	slices.SortFunc(all, compare)
	return all
}

// label is the Network label of Services in one namespace.
type label struct{ namespace, network string }

// labelled returns the Services of one label, which share their VPC.
func labelled(tx store.ReadTx, vpc *store.VPC, defaultVPC string, of label, seen map[label]bool) []*store.Service {
	if seen[of] || !belongs(tx, vpc, defaultVPC, of) {
		return nil
	}
	seen[of] = true
	return slices.DeleteFunc(store.ServicesByNetwork(tx, of.namespace, of.network), func(s *store.Service) bool {
		return len(s.ClusterIPs) == 0
	})
}

func belongs(tx store.ReadTx, vpc *store.VPC, defaultVPC string, of label) bool {
	return home(tx, of, defaultVPC) == vpc.Name
}

// home returns the name of the VPC of the Services of one label, or "".
func home(tx store.ReadTx, of label, defaultVPC string) string {
	name, tenant := wanted(tx, of, defaultVPC)
	if vpc := store.GetVPC(tx, name); vpc == nil || !tenancy.Allows(vpc, tenant) {
		return ""
	}
	return name
}

// wanted returns the name of the VPC that the Services of one label ask for, or "", and their
// tenant. The VPC need not exist, nor allow the tenant.
func wanted(tx store.ReadTx, of label, defaultVPC string) (vpc, tenant string) {
	ns := store.GetNamespace(tx, of.namespace)
	if ns == nil {
		return "", ""
	}
	net := tenancy.Find(tx, ns.Tenant, ns.Name, cmp.Or(of.network, arktosv1.DefaultNetwork))
	switch {
	case net == nil && of.network == "":
		return defaultVPC, ns.Tenant
	case net != nil && tenancy.Served(net.Type):
		return net.VPC, ns.Tenant
	}
	return "", ns.Tenant
}

// VPCOf returns the name of the VPC that a Service with a virtual address belongs to, "" without
// one. Services lists the Service for this VPC.
func VPCOf(tx store.ReadTx, service *store.Service, defaultVPC string) string {
	if len(service.ClusterIPs) == 0 {
		return ""
	}
	return home(tx, label{service.Namespace, service.Network}, defaultVPC)
}

// VIPs returns the virtual addresses of a Service in its VPC: the ClusterIPs, and behind them the
// addresses that Address objects give to it as a load balancer, by IP. The status of the Service
// does not count.
func VIPs(tx store.ReadTx, vpc string, service *store.Service) []netip.Addr {
	all := slices.Clone(service.ClusterIPs)
	if service.LoadBalancer != store.LoadBalancerVPC {
		return all
	}
	var claimed []netip.Addr
	for _, row := range store.AddressesByService(tx, service) {
		if row.VPC == vpc && !row.Deleting {
			claimed = append(claimed, row.IP)
		}
	}
	slices.SortFunc(claimed, netip.Addr.Compare)
	return append(all, claimed...)
}

func compare(a, b *store.Service) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// MaxBackends is the number of backends that one port of a virtual address has at most.
const MaxBackends = 1000

// Site is the place of a judgement about a Service.
type Site struct {
	// VPC and DefaultVPC are names of VPCs. Outside of every VPC, VPC is the domain of a
	// network (store.NetworkRef.Domain).
	VPC, DefaultVPC string
}

// Backend is the target of a connection.
type Backend struct {
	netip.AddrPort
	// Outside reports that the address is outside of the VPC: the VPC's egress leads there.
	Outside bool
}

// slicesIn returns the slices of a Service whose addresses may be in a VPC, or in a network
// outside of every VPC. The addresses of a slice of another domain mean something else there. A
// slice without a domain has addresses of a VPC.
func slicesIn(tx store.ReadTx, domain string, service *store.Service) []*store.EndpointSlice {
	return slices.DeleteFunc(
		store.EndpointSlicesByService(tx, service.Namespace, service.Name),
		func(slice *store.EndpointSlice) bool {
			return !isIn(slice, domain)
		},
	)
}

func isIn(slice *store.EndpointSlice, domain string) bool {
	return slice.Domain == domain || slice.Domain == "" && !store.IsNetworkDomain(domain)
}

// portOf returns the number that a port of a Service has in a slice, 0 where it has
// none.
func portOf(slice *store.EndpointSlice, port store.ServicePort) uint16 {
	for _, p := range slice.Ports {
		if p.Name == port.Name && p.Protocol == port.Protocol && p.Port != 0 {
			return p.Port
		}
	}
	return 0
}

// Named returns the addresses in the slices of a Service, with any holder, ascending and
// each once: a change of these Addresses may change the result of Judge.
func Named(tx store.ReadTx, service *store.Service) []netip.Addr {
	var named []netip.Addr
	for _, slice := range store.EndpointSlicesByService(tx, service.Namespace, service.Name) {
		for _, endpoint := range slice.Endpoints {
			named = append(named, endpoint.Addresses...)
		}
	}
	slices.SortFunc(named, netip.Addr.Compare)
	return slices.Compact(named)
}

// LeftOut returns the addresses in the slices of a Service, for connections, where the VPC has no
// pod that counts and no egress leads. The addresses are ascending, each once. The node of the
// site does not matter.
func LeftOut(tx store.ReadTx, at Site, service *store.Service) []netip.Addr {
	var out []netip.Addr
	reachable := reachabilityOf(tx, at)
	for _, slice := range slicesIn(tx, at.VPC, service) {
		for i := range slice.Endpoints {
			endpoint := &slice.Endpoints[i]
			for _, ip := range endpoint.Addresses {
				if (endpoint.Ready || endpoint.Terminating) && backendAt(tx, at.VPC, service, endpoint, ip) == nil &&
					!reachable.reaches(service, endpoint, ip) {
					out = append(out, ip)
				}
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// IsWide reports whether the result of Judge for a Service depends on more than the Service, its
// slices and the Addresses that these name. If no pod holds a named address, the result depends
// on nodes and on the addresses of the cluster. If the Service has no selector, it depends on the
// tenants of namespaces.
func IsWide(tx store.ReadTx, vpc string, service *store.Service, named []netip.Addr) bool {
	unheld := func(ip netip.Addr) bool { return heldByPod(tx, vpc, ip) == nil }
	return service.Selectorless && len(named) > 0 || slices.ContainsFunc(named, unheld)
}
