// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// routes returns all routes that shall be.
func (r *resolution) routes(desired, current *document.Routes) []document.Route {
	var is, want []document.Route
	if current != nil {
		is = current.Config
	}
	if desired != nil {
		want = desired.Config
	}
	list := slices.DeleteFunc(slices.Clone(is), r.loses)
	for n, route := range want {
		r.Word(routePath(n)+".state", route.State, document.Absent, document.Ignore)
		if route.State == document.Absent && r.checkPattern(routePath(n), route) {
			list = slices.DeleteFunc(list, func(other document.Route) bool { return compare.RouteMatches(route, other) })
		}
	}
	var added []int
	wanted := map[string]bool{}
	for n, route := range want {
		if before := len(r.Problems); route.State == "" && r.checkRoute(routePath(n), route) && len(r.Problems) == before {
			added = append(added, n)
			wanted[compare.RouteKey(route)], wanted[withoutMetric(route)] = true, true
		}
	}
	list = slices.DeleteFunc(list, func(route document.Route) bool {
		// A route that a desired one differs from by its metric alone gets that.
		return wanted[withoutMetric(route)] && !wanted[compare.RouteKey(route)]
	})
	seen := map[string]document.Route{}
	for _, route := range list {
		seen[compare.RouteKey(route)] = route
	}
	for _, n := range added {
		list = r.addRoute(list, seen, routePath(n), compare.NormalRoute(want[n]))
	}
	return list
}

func routePath(n int) string { return fmt.Sprintf("routes.config[%d]", n) }

// withoutMetric has what two routes have in common that differ by their metrics alone.
func withoutMetric(route document.Route) string {
	route = compare.NormalRoute(route)
	return fmt.Sprintln(route.Destination, *route.Table, route.Interface, route.Address, route.Source, route.Type)
}

func (r *resolution) addRoute(
	list []document.Route,
	seen map[string]document.Route,
	path string,
	route document.Route,
) []document.Route {
	other, taken := seen[compare.RouteKey(route)]
	switch {
	case !taken:
		seen[compare.RouteKey(route)] = route
		return append(list, route)
	case !compare.SameRoute(other, withAttributes(route, other)):
		r.Add(
			path,
			"%s: table %d has another route with that destination and metric: delete it with state absent, or choose another metric",
			route.Destination,
			*route.Table,
		)
	}
	return list
}

// checkPattern checks an absent route, which says which routes go.
func (r *resolution) checkPattern(path string, route document.Route) bool {
	before := len(r.Problems)
	if route.Destination != "" {
		r.Prefix(path+".destination", route.Destination)
	}
	r.checkRouteFields(path, route)
	return len(r.Problems) == before
}

func (r *resolution) checkRouteFields(path string, route document.Route) {
	r.Uint32(path+".metric", route.Metric)
	r.Uint32(path+".table-id", route.Table)
	r.Word(path+".route-type", route.Type, document.Blackhole, document.Unreachable, document.Prohibit)
	r.Address(path+".next-hop-address", route.Address)
	r.Address(path+".source", route.Source)
	r.Within(path+".mtu", route.MTU, 1, math.MaxInt32)
	r.Within(path+".advmss", route.AdvMSS, 1, math.MaxInt32)
	r.Within(path+".initcwnd", route.InitCwnd, 1, math.MaxInt32)
	r.Within(path+".initrwnd", route.InitRwnd, 1, math.MaxInt32)
}

// checkRoute checks a route to add, and reports whether its destination is a prefix.
func (r *resolution) checkRoute(path string, route document.Route) bool {
	r.checkRouteFields(path, route)
	if route.Destination == "" {
		r.Add(path+".destination", "missing: want a prefix, such as 198.51.100.0/24")
		return false
	}
	prefix, ok := r.Prefix(path+".destination", route.Destination)
	if !ok {
		return false
	}
	family := ipfamily.Of(prefix.Addr())
	r.sameFamily(path+".next-hop-address", route.Address, family)
	r.sameFamily(path+".source", route.Source, family)
	switch {
	case route.Type != "" && (route.Interface != "" && route.Interface != loopback || route.Address != ""):
		r.Add(
			path+".route-type",
			"%s: such a route has no next hop: remove next-hop-interface and next-hop-address",
			route.Type,
		)
	case route.Type == "" && route.Interface == "":
		r.Add(
			path+".next-hop-interface",
			"missing: a route needs it, but for one of route-type blackhole, unreachable or prohibit",
		)
	case route.Type == "":
		r.checkNextHop(path+".next-hop-interface", route.Interface, family)
	}
	return true
}

// loopback is the interface that nmstate shows for routes without a next hop.
const loopback = "lo"

func (r *resolution) sameFamily(path, text string, family ipfamily.Family) {
	if ip, err := compare.ParseAddress(text); text != "" && err == nil && !family.Has(ip) {
		r.Add(path, "%s: want an address of %s, as the destination is", text, family)
	}
}

func (r *resolution) checkNextHop(path, name string, family ipfamily.Family) {
	i, ok := r.get(name)
	switch {
	case r.invalid[name]:
	case !ok:
		r.Add(path, "%s: no such interface", name)
	case i.State == document.Absent || i.State == document.Down:
		r.Add(path, "%s: it is %s", name, i.State)
	case r.isPort(i):
		r.Add(path, "%s: it is a port of %s: name that", name, controllerOf(i))
	case family == ipfamily.IPv6 && i.IPv6 != nil && compare.IsFalse(i.IPv6.Enabled):
		r.Add(path, "%s: IPv6 is not enabled there", name)
	case family == ipfamily.IPv4 && r.desired[name].IPv4 != nil && compare.IsFalse(r.desired[name].IPv4.Enabled):
		r.Add(path, "%s: IPv4 is not enabled there", name)
	}
}

// isPort: a port of a bond or a bridge has no routes.
func (r *resolution) isPort(i document.Interface) bool {
	controller, ok := r.get(controllerOf(i))
	return ok && (controller.Type == document.Bond || controller.Type == document.LinuxBridge)
}

// loses reports whether a current route goes with what its interface loses.
func (r *resolution) loses(route document.Route) bool {
	i, changes := r.final[route.Interface]
	if route.Interface == "" || !changes {
		return false
	}
	if i.State != document.Up || r.isPort(*i) {
		return true
	}
	now := r.current[route.Interface]
	is, shall := now.IPv6, i.IPv6
	if prefix, err := netip.ParsePrefix(route.Destination); err == nil && prefix.Addr().Is4() {
		is, shall = now.IPv4, i.IPv4
	} else if shall != nil && compare.IsFalse(shall.Enabled) {
		return true
	}
	left := slices.Concat(addressesOf(shall), Staying(is, shall))
	return len(addressesOf(is)) > 0 && len(left) == 0 ||
		shall != nil && shall.Addresses != nil && lostSource(left, route.Source)
}

func addressesOf(ip *document.IP) []document.Address {
	if ip == nil {
		return nil
	}
	return ip.Addresses
}

// lostSource reports whether an interface no longer has the source address of a route.
func lostSource(list []document.Address, source string) bool {
	return source != "" && !slices.ContainsFunc(list, func(a document.Address) bool {
		return compare.CanonicalAddress(a.IP) == compare.CanonicalAddress(source)
	})
}

// withAttributes returns a route with the attributes of another one that it does not have.
func withAttributes(route, other document.Route) document.Route {
	route.MTU, route.AdvMSS = cmp.Or(route.MTU, other.MTU), cmp.Or(route.AdvMSS, other.AdvMSS)
	route.LockMTU, route.QuickACK = cmp.Or(route.LockMTU, other.LockMTU), cmp.Or(route.QuickACK, other.QuickACK)
	route.InitCwnd, route.InitRwnd = cmp.Or(route.InitCwnd, other.InitCwnd), cmp.Or(route.InitRwnd, other.InitRwnd)
	return route
}
