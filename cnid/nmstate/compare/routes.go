// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"net/netip"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// RouteKey returns what the kernel tells routes apart by.
func RouteKey(route document.Route) string {
	route = NormalRoute(route)
	return fmt.Sprint(route.Destination, *route.Metric, *route.Table)
}

// SameRoute reports whether two routes are one, in whatever form they are written.
func SameRoute(a, b document.Route) bool {
	a, b = NormalRoute(a), NormalRoute(b)
	return RouteMatches(a, b) && RouteMatches(b, a)
}

// NormalRoute returns a route with table and metric filled in, and with prefixes and addresses in
// the form for comparisons.
func NormalRoute(route document.Route) document.Route {
	four := true
	if prefix, err := netip.ParsePrefix(route.Destination); err == nil {
		route.Destination, four = prefix.Masked().String(), prefix.Addr().Is4()
	}
	route.Protocol = ""
	if route.Table == nil || *route.Table == 0 {
		route.Table = new(int64(document.MainTable))
	}
	switch {
	case !four && (route.Metric == nil || *route.Metric == 0):
		route.Metric = new(int64(metricIPv6))
	case route.Metric == nil:
		route.Metric = new(int64(0))
	}
	route.Address, route.Source = CanonicalAddress(route.Address), CanonicalAddress(route.Source)
	if route.Type != "" {
		route.Interface, route.Address = "", ""
	}
	return route
}

// RouteMatches reports whether a route has all that an absent one names.
func RouteMatches(pattern, route document.Route) bool {
	normal, all := NormalRoute(route), NormalRoute(pattern)
	return matchesWord(all.Destination, normal.Destination) && matchesWord(all.Interface, normal.Interface) &&
		matchesHop(
			pattern.Address,
			normal.Address,
		) && matchesWord(pattern.Type, normal.Type) && matchesWord(all.Source, normal.Source) &&
		(pattern.Metric == nil || *all.Metric == *normal.Metric || *pattern.Metric == *normal.Metric) &&
		(pattern.Table == nil || *all.Table == *normal.Table) && matchesAttributes(pattern, route)
}

func matchesAttributes(pattern, route document.Route) bool {
	return matchesNumber(pattern.MTU, route.MTU) && matchesNumber(pattern.AdvMSS, route.AdvMSS) &&
		matchesNumber(pattern.InitCwnd, route.InitCwnd) && matchesNumber(pattern.InitRwnd, route.InitRwnd) &&
		matchesTruth(pattern.LockMTU, route.LockMTU) && matchesTruth(pattern.QuickACK, route.QuickACK)
}

// matchesTruth: a route without a field has it false.
func matchesTruth(pattern, truth *bool) bool { return pattern == nil || *pattern == IsTrue(truth) }

// matchesHop: the address of all zeros is a next hop on the link.
func matchesHop(pattern, hop string) bool {
	if ip, err := netip.ParseAddr(pattern); err == nil && ip.IsUnspecified() {
		return hop == ""
	}
	return matchesWord(CanonicalAddress(pattern), hop)
}

func matchesWord(pattern, word string) bool { return pattern == "" || pattern == word }

// metricIPv6 is the kernel's metric of an IPv6 route that has none (IP6_RT_PRIO_USER).
const metricIPv6 = 1024
