// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/services"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Rules are the settings that do not change while an operator runs.
type Rules struct {
	// DefaultVPC is the name of the default VPC.
	DefaultVPC string
	// Shared are the Services (namespace/name) that every VPC reaches, besides the Services that
	// SharedService objects name.
	Shared []string
}

// addressesNamed is how many addresses a message names.
const addressesNamed = 3

// decide explains why a Service is served in no VPC, or which endpoints are ignored; nil
// if neither is the case. A Service without a virtual address needs no explanation. A
// Service without a label, in a namespace that has neither a VPC nor a tenant, gets no
// event: it may not be meant for a VPC.
func decide(tx store.ReadTx, service *store.Service, rules Rules) *tenancy.Refusal {
	ns := store.GetNamespace(tx, service.Namespace)
	if service.Deleting || len(service.ClusterIPs) == 0 || ns == nil {
		return nil
	}
	member := tenancy.Member{Tenant: ns.Tenant, Namespace: ns.Name, Label: service.Network}
	target, refusal := tenancy.Resolve(tx, member, rules.DefaultVPC)
	switch {
	case refusal != nil && (unconcerned(refusal, ns.Tenant) || shared(tx, service, rules)):
		return nil
	case refusal != nil:
		return refusal
	case shared(tx, service, rules):
		return nil // its backends may be anywhere
	}
	out := services.LeftOut(tx, services.Site{VPC: target.VPC.Name, DefaultVPC: rules.DefaultVPC}, service)
	switch {
	case len(out) == 0:
		return nil
	case service.Selectorless:
		return &tenancy.Refusal{Reason: v1alpha1.EndpointsLeftOutReason, Message: fmt.Sprintf(
			"EndpointSlices of the Service contain %s, which is neither an address of the tenant's pods in VPC %q nor allowed by its egress: connections use the other endpoints; correct the slices, or spec.egress of the VPC",
			some(out),
			target.VPC.Name,
		)}
	}
	return &tenancy.Refusal{Reason: v1alpha1.EndpointsLeftOutReason, Message: fmt.Sprintf(
		"EndpointSlices of the Service contain %s, which the selected pods do not hold in VPC %q: connections use the pods in that VPC; correct the selector, or the Network of the pods or of the Service",
		some(out),
		target.VPC.Name,
	)}
}

// unconcerned reports whether a Service that is refused may never have been meant for a
// VPC.
func unconcerned(refusal *tenancy.Refusal, tenant string) bool {
	return refusal.Reason == v1alpha1.NoDefaultNetworkReason && !tenancy.Labelled(tenant)
}

// ungranted returns the external IPs of a Service that no pool grants, nil for none.
func ungranted(tx store.ReadTx, service *store.Service) *tenancy.Refusal {
	granted := services.ExternalIPs(tx, service)
	out := slices.DeleteFunc(
		slices.Clone(service.ExternalIPs),
		func(ip netip.Addr) bool { return slices.Contains(granted, ip) },
	)
	if service.Deleting || len(out) == 0 {
		return nil
	}
	return &tenancy.Refusal{Reason: v1alpha1.ExternalIPsNotGrantedReason, Message: fmt.Sprintf(
		"the external IPs %s are not served: they need a Ready ExternalPool with use ExternalIPs that allows the Service's tenant, and no older Service of another tenant may have them",
		some(out),
	)}
}

// partly reports that a Service is not served by every node from outside, nil if it is,
// or if it is not meant to be. The message does not depend on the number of nodes.
func partly(tx store.ReadTx, service *store.Service, rules Rules) *tenancy.Refusal {
	if service.Deleting || service.ExternalNodeLocal || !service.ByBackendsHere() {
		return nil
	}
	ips := outsideIPs(tx, service)
	vpc := services.VPCOf(tx, service, rules.DefaultVPC)
	if len(ips) == 0 || vpc == "" {
		return nil
	}
	ready := services.ReadyOn(tx, services.Site{VPC: vpc, DefaultVPC: rules.DefaultVPC}, service)
	lacking := func(node *store.Node) bool { return node.MayAnnounce() && !ready[node.Name] }
	if len(ready) == 0 || !slices.ContainsFunc(store.ListNodes(tx), lacking) {
		return nil
	}
	return &tenancy.Refusal{Reason: v1alpha1.NotServedByAllNodesReason, Message: fmt.Sprintf(
		"nodes without a ready backend of the Service refuse connections to %s, because the Service has no node ports: "+
			"set allocateLoadBalancerNodePorts or type NodePort, or run a backend on every node", some(ips))}
}

// outsideIPs returns the addresses outside of every VPC that a Service has.
func outsideIPs(tx store.ReadTx, service *store.Service) []netip.Addr {
	ips := services.ExternalIPs(tx, service)
	for _, row := range external.AddressesByService(tx, service.UID) {
		if !row.Deleting {
			ips = append(ips, row.IP)
		}
	}
	return ips
}

func shared(tx store.ReadTx, service *store.Service, rules Rules) bool {
	if service.Network != "" {
		return false
	}
	return slices.Contains(rules.Shared, service.Namespace+"/"+service.Name) ||
		slices.ContainsFunc(store.ListSharedServices(tx), func(s *store.SharedService) bool {
			return s.ServiceNamespace == service.Namespace && s.ServiceName == service.Name
		})
}

func some(ips []netip.Addr) string {
	var names []string
	for _, ip := range ips[:min(len(ips), addressesNamed)] {
		names = append(names, ip.String())
	}
	if len(ips) > addressesNamed {
		names = append(names, fmt.Sprintf("and %d more", len(ips)-addressesNamed))
	}
	return strings.Join(names, ", ")
}
