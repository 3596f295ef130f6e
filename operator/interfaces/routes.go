// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// checkRoutes refuses requested routes that the interface can't have. DANM ignored them. Nodes
// judge routes that depend on addresses from plugins.
func checkRoutes(r request) *tenancy.Refusal {
	if len(r.Routes) == 0 {
		return nil
	}
	if r.net.Table == 0 {
		return invalid(
			"%s has no routing table for \"proutes\": its owner can set spec.Options.rt_tables, or remove \"proutes\" and \"proutes6\"",
			r.net.Ref,
		)
	}
	for _, route := range r.Routes {
		family := ipfamily.Of(route.Dst.Addr())
		rng, key := ipfamily.Pick(family, r.net.V4, r.net.V6), ipfamily.Pick(family, "ip", "ip6")
		switch {
		case r.chosenByPlugins():
		case !r.addressed(family):
			return invalid(
				"the route to %s needs an address of its family: request one by %q, or remove the route",
				route.Dst,
				key,
			)
		case !rng.Prefix.Contains(route.Gateway):
			return invalid(
				"the gateway %s of the route to %s is not in %s, the range of %s",
				route.Gateway,
				route.Dst,
				rng.Prefix,
				r.net.Ref,
			)
		}
	}
	return nil
}

// setTables chooses the routing tables of the requested routes: the table of the network, and the
// next number if another interface of the pod has that table. Two interfaces with one table could
// not have routes to one destination.
func setTables(requests []request) {
	taken := map[int]bool{}
	for i, r := range requests {
		if len(r.Routes) == 0 || r.net == nil {
			continue
		}
		table := r.net.Table
		for taken[table] || reservedTables[table] {
			table++
		}
		taken[table] = true
		requests[i].table = table
	}
}

// reservedTables are the tables default, main and local of the kernel, which come first
// for packets of every source (rt_tables).
var reservedTables = map[int]bool{253: true, 254: true, 255: true}

// routes returns the routes of the interface: the network's routes in the main table, and the
// routes that the pod requests in the interface's table. The interface's table has the network's
// own range too, because packets of the interface's address are routed by it alone. A family
// without an address has none. If plugins choose the addresses, nodes add the range.
func (r request) routes() []netif.Route {
	all := slices.Clone(r.main)
	for _, rule := range r.rules() {
		if r.chosenByPlugins() {
			break
		}
		rng := r.net.V6
		if rule.From.Addr().Is4() {
			rng = r.net.V4
		}
		all = append(all, netif.Route{Dst: rng.Prefix, Table: r.table})
	}
	for _, route := range r.Routes {
		all = append(all, netif.Route{Dst: route.Dst, Gateway: route.Gateway, Table: r.table})
	}
	return all
}

// rules returns a rule for each family with requested routes. Its source is the address
// of the interface, which is not chosen yet: the source has the right family only.
func (r request) rules() []netif.Rule {
	var all []netif.Rule
	for _, from := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		for _, route := range r.Routes {
			if route.Dst.Addr().Is4() == from.Is4() {
				all = append(all, netif.Rule{From: netip.PrefixFrom(from, from.BitLen()), Table: r.table})
				break
			}
		}
	}
	return all
}

// setMainRoutes sets the routes of the interfaces in the main table. These are the routes of their
// networks, for each family with an address, or with a possible address from plugins. Of two
// interfaces in one network the first one has the routes. It refuses a pod with two different
// routes to one destination, because the order of their creation would decide which one counts. The
// first interface in a VPC has a default route for each family of the VPC, unless the pod has one
// of them elsewhere.
func setMainRoutes(requests []request) *tenancy.Refusal {
	owners := map[netip.Prefix]request{}
	inVPC := false
	for i, r := range requests {
		var refusal *tenancy.Refusal
		switch {
		case r.inVPC() && !inVPC && !r.noDefaultRoute:
			refusal = requests[i].ownVPCDefaults(owners)
			inVPC = !requests[i].noDefaultRoute
		case !r.inVPC() && r.net != nil:
			refusal = requests[i].ownRoutes(owners)
		}
		if refusal != nil {
			return refusal
		}
	}
	return nil
}

// ownVPCDefaults notes the default routes of an interface in a VPC. An interface that a definition
// adds has no default routes if an earlier interface has a default route: an attachment in a VPC
// has the default routes of all families, or none.
func (r *request) ownVPCDefaults(owners map[netip.Prefix]request) *tenancy.Refusal {
	var own []netip.Prefix
	for _, unspecified := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		dst := netip.PrefixFrom(unspecified, 0)
		if !vpcHas(r.target.VPC, ipfamily.Of(dst.Addr())) {
			continue
		}
		if other, taken := owners[dst]; taken {
			if r.definition == "" {
				return routeConflict(dst, other, *r)
			}
			r.keepDefaults(dst, other)
			return nil
		}
		own = append(own, dst)
	}
	for _, dst := range own {
		owners[dst] = *r
	}
	return nil
}

// ownRoutes sets the routes of an interface in a network outside of every VPC, and notes
// them.
func (r *request) ownRoutes(owners map[netip.Prefix]request) *tenancy.Refusal {
	for _, route := range slices.Concat(r.net.Routes, r.defaultRoutes()) {
		if isDefault(route) && r.replacesDefault(route) ||
			!r.chosenByPlugins() && !r.addressed(ipfamily.Of(route.Dst.Addr())) {
			continue
		}
		switch other, taken := owners[route.Dst]; {
		case taken && other.net == r.net:
			continue
		case taken && r.givesWay(route):
			r.keepDefault(route, other)
			continue
		case taken:
			return routeConflict(route.Dst, other, *r)
		}
		owners[route.Dst] = *r
		r.main = append(r.main, netif.Route{Dst: route.Dst, Gateway: route.Gateway})
	}
	return nil
}

func routeConflict(dst netip.Prefix, one, other request) *tenancy.Refusal {
	return &tenancy.Refusal{Reason: v1alpha1.RouteConflictReason, Message: fmt.Sprintf(
		"%s and %s would each have a route to %s: request \"proutes\" instead of a route in the network, or leave one interface out",
		one,
		other,
		dst,
	)}
}

// String names an interface with its network.
func (r request) String() string {
	if r.inVPC() {
		return fmt.Sprintf("%s (VPC %s)", r.name, r.target.VPC.Name)
	}
	if r.net == nil {
		return fmt.Sprintf("%s (%s)", r.name, r.definition)
	}
	return fmt.Sprintf("%s (%s)", r.name, r.net.Ref)
}

func vpcHas(vpc *store.VPC, family ipfamily.Family) bool {
	for _, prefix := range vpc.Prefixes {
		if family.Has(prefix.Addr()) {
			return true
		}
	}
	return false
}

// reachability refuses requests that lead to the pod's first interface through the node, if that
// interface is outside of every VPC: the node has no way to it, and may reach another host with the
// same address instead.
func reachability(p *store.Pod, requests []request) *tenancy.Refusal {
	first := requests[0]
	switch {
	case first.inVPC():
		return nil
	case p.NetworkProbes:
		return &tenancy.Refusal{Reason: v1alpha1.ProbesOutsideVPCReason, Message: fmt.Sprintf(
			"the kubelet can't reach %s with probes or hooks over the network: use exec probes, or put an interface in a VPC first",
			first,
		)}
	case len(p.HostPorts) > 0:
		return &tenancy.Refusal{Reason: v1alpha1.HostPortOutsideVPCReason, Message: fmt.Sprintf(
			"hostPort %d does not lead to %s: remove it, or put an interface in a VPC first", p.HostPorts[0].HostPort, first)}
	}
	return nil
}
