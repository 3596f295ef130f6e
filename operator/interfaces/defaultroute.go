// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// moveDefaultRoute takes the default routes from all interfaces but the one with "default-route",
// if the pod has such an interface (NPWG 1.3, section 4.1).
func moveDefaultRoute(tx store.ReadTx, requests []request) *tenancy.Refusal {
	chosen := slices.IndexFunc(requests, func(r request) bool { return r.defaultRoute })
	if chosen < 0 {
		return nil
	}
	if slices.ContainsFunc(requests[chosen+1:], func(r request) bool { return r.defaultRoute }) {
		return invalid(
			"the annotations %s and %s both have \"default-route\": keep one of them",
			annotations.DefaultNetworkKey,
			annotations.NetworksKey,
		)
	}
	for i := range requests {
		requests[i].noDefaultRoute = i != chosen
	}
	return requests[chosen].checkDefaultRoute(tx)
}

// checkDefaultRoute refuses default routes that the interface can't have. Only the node knows the
// default routes of an interface that CNI plugins make.
func (r request) checkDefaultRoute(tx store.ReadTx) *tenancy.Refusal {
	if !r.inVPC() && (r.net == nil || r.chosenByPlugins()) {
		return nil
	}
	if len(r.gateways) == 0 && !r.inVPC() && !slices.ContainsFunc(r.net.Routes, isDefault) {
		return invalid("%s has no default route: write the gateway into \"default-route\"", r.net.Ref)
	}
	for _, gateway := range r.gateways {
		if r.inVPC() {
			if !r.isGateway(tx, gateway) {
				return invalid(
					"\"default-route\": %s is no gateway of a subnet of VPC %s: write [], or the gateway of the interface's subnet",
					gateway,
					r.target.VPC.Name,
				)
			}
			continue
		}
		rng := r.net.V6
		if gateway.Is4() {
			rng = r.net.V4
		}
		if !r.addressed(ipfamily.Of(gateway)) || !rng.Prefix.Contains(gateway) {
			return invalid(
				"\"default-route\": %s is not in a range of %s from which the interface has an address",
				gateway,
				r.net.Ref,
			)
		}
	}
	return nil
}

// isGateway reports whether an address is the gateway of a subnet that the interface may
// get.
func (r request) isGateway(tx store.ReadTx, gateway netip.Addr) bool {
	return slices.ContainsFunc(store.SubnetsByVPC(tx, r.target.VPC.Name), func(s *store.Subnet) bool {
		return (r.Subnet == "" || r.Subnet == s.Name || r.Subnet == s.ShortName) && slices.Contains(s.Gateways, gateway)
	})
}

// defaultRoutes returns the default routes that the pod requests for an interface outside of VPCs.
func (r request) defaultRoutes() []multinet.Route {
	var routes []multinet.Route
	for _, gateway := range r.gateways {
		all := netip.IPv6Unspecified()
		if gateway.Is4() {
			all = netip.IPv4Unspecified()
		}
		routes = append(routes, multinet.Route{Dst: netip.PrefixFrom(all, 0), Gateway: gateway})
	}
	return routes
}

// replacesDefault reports whether the pod requests a default route that replaces a default route of
// the interface's network.
func (r request) replacesDefault(route multinet.Route) bool {
	if r.noDefaultRoute {
		return true
	}
	return len(r.gateways) > 0 && !slices.Contains(r.gateways, route.Gateway)
}

// givesWay reports whether a default route of the interface is left out because an earlier
// interface of the pod has one: definitions add networks to a pod, and do not choose its default
// routes. In a list of DANM, two default routes are an error.
func (r request) givesWay(route multinet.Route) bool { return isDefault(route) && r.definition != "" }

// keepDefault adds an event about a default route that is left out.
func (r *request) keepDefault(route multinet.Route, kept request) {
	r.notices = append(
		r.notices,
		pod.Notice{
			Reason: v1alpha1.DefaultRouteKeptReason,
			Action: fmt.Sprintf("Keep the route to %s before %s", route.Dst, r.name),
			Message: fmt.Sprintf(
				"interface %s: the route to %s by %s of %s is left out, because the pod has its default route by %s: add \"default-route\": [] to the selection if it shall lead there, or remove the route from the network",
				r.name,
				route.Dst,
				route.Gateway,
				r.net.Ref,
				kept,
			),
		},
	)
}

// keepDefaults takes the default routes from an interface in a VPC, with an event.
func (r *request) keepDefaults(dst netip.Prefix, kept request) {
	r.noDefaultRoute = true
	r.notices = append(
		r.notices,
		pod.Notice{
			Reason: v1alpha1.DefaultRouteKeptReason,
			Action: fmt.Sprintf("Keep the route to %s before %s", dst, r.name),
			Message: fmt.Sprintf(
				"interface %s: VPC %s gives the pod no default route of any family, because the pod has its route to %s by %s: add \"default-route\": [] to the selection if the default routes shall lead there",
				r.name,
				r.target.VPC.Name,
				dst,
				kept,
			),
		},
	)
}

func isDefault(route multinet.Route) bool { return route.Dst.Bits() == 0 }
