// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
)

// metricIPv6 is the kernel's metric of an IPv6 route that has none (IP6_RT_PRIO_USER).
const metricIPv6 = 1024

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
		r.word(routePath(n)+".state", route.State, document.Absent, document.Ignore)
		if route.State == document.Absent && r.checkPattern(routePath(n), route) {
			list = slices.DeleteFunc(list, func(other document.Route) bool { return RouteMatches(route, other) })
		}
	}
	var added []int
	wanted := map[string]bool{}
	for n, route := range want {
		if before := len(r.problems); route.State == "" && r.checkRoute(routePath(n), route) && len(r.problems) == before {
			added = append(added, n)
			wanted[RouteKey(route)], wanted[withoutMetric(route)] = true, true
		}
	}
	list = slices.DeleteFunc(list, func(route document.Route) bool {
		// A route that a desired one differs from by its metric alone gets that.
		return wanted[withoutMetric(route)] && !wanted[RouteKey(route)]
	})
	seen := map[string]document.Route{}
	for _, route := range list {
		seen[RouteKey(route)] = route
	}
	for _, n := range added {
		list = r.addRoute(list, seen, routePath(n), NormalRoute(want[n]))
	}
	return list
}

func routePath(n int) string { return fmt.Sprintf("routes.config[%d]", n) }

// withoutMetric has what two routes have in common that differ by their metrics alone.
func withoutMetric(route document.Route) string {
	route = NormalRoute(route)
	return fmt.Sprintln(route.Destination, *route.Table, route.Interface, route.Address, route.Source, route.Type)
}

// withAttributes returns a route with the attributes of another one that it does not have.
func withAttributes(route, other document.Route) document.Route {
	route.MTU, route.AdvMSS = cmp.Or(route.MTU, other.MTU), cmp.Or(route.AdvMSS, other.AdvMSS)
	route.LockMTU, route.QuickACK = cmp.Or(route.LockMTU, other.LockMTU), cmp.Or(route.QuickACK, other.QuickACK)
	route.InitCwnd, route.InitRwnd = cmp.Or(route.InitCwnd, other.InitCwnd), cmp.Or(route.InitRwnd, other.InitRwnd)
	return route
}

// RouteKey returns what the kernel tells routes apart by.
func RouteKey(route document.Route) string {
	route = NormalRoute(route)
	return fmt.Sprint(route.Destination, *route.Metric, *route.Table)
}

func (r *resolution) addRoute(list []document.Route, seen map[string]document.Route, path string, route document.Route) []document.Route {
	other, taken := seen[RouteKey(route)]
	switch {
	case !taken:
		seen[RouteKey(route)] = route
		return append(list, route)
	case !SameRoute(other, withAttributes(route, other)):
		r.add(path, "%s: table %d has another route with that destination and metric: delete it with state absent, or choose another metric",
			route.Destination, *route.Table)
	}
	return list
}

// SameRoute reports whether two routes are one, in whatever form they are written.
func SameRoute(a, b document.Route) bool {
	a, b = NormalRoute(a), NormalRoute(b)
	return RouteMatches(a, b) && RouteMatches(b, a)
}

// checkPattern checks an absent route, which says which routes go.
func (r *resolution) checkPattern(path string, route document.Route) bool {
	before := len(r.problems)
	if route.Destination != "" {
		r.prefix(path+".destination", route.Destination)
	}
	r.checkRouteFields(path, route)
	return len(r.problems) == before
}

func (r *resolution) checkRouteFields(path string, route document.Route) {
	r.uint32(path+".metric", route.Metric)
	r.uint32(path+".table-id", route.Table)
	r.word(path+".route-type", route.Type, document.Blackhole, document.Unreachable, document.Prohibit)
	r.address(path+".next-hop-address", route.Address)
	r.address(path+".source", route.Source)
	r.within(path+".mtu", route.MTU, 1, maxInt32)
	r.within(path+".advmss", route.AdvMSS, 1, maxInt32)
	r.within(path+".initcwnd", route.InitCwnd, 1, maxInt32)
	r.within(path+".initrwnd", route.InitRwnd, 1, maxInt32)
}

// checkRoute checks a route to add, and reports whether its destination is a prefix.
func (r *resolution) checkRoute(path string, route document.Route) bool {
	r.checkRouteFields(path, route)
	if route.Destination == "" {
		r.add(path+".destination", "missing: want a prefix, such as 198.51.100.0/24")
		return false
	}
	prefix, ok := r.prefix(path+".destination", route.Destination)
	if !ok {
		return false
	}
	family := ipfamily.Of(prefix.Addr())
	r.sameFamily(path+".next-hop-address", route.Address, family)
	r.sameFamily(path+".source", route.Source, family)
	switch {
	case route.Type != "" && (route.Interface != "" && route.Interface != loopback || route.Address != ""):
		r.add(path+".route-type", "%s: such a route has no next hop: remove next-hop-interface and next-hop-address", route.Type)
	case route.Type == "" && route.Interface == "":
		r.add(path+".next-hop-interface", "missing: a route needs it, but for one of route-type blackhole, unreachable or prohibit")
	case route.Type == "":
		r.checkNextHop(path+".next-hop-interface", route.Interface, family)
	}
	return true
}

// loopback is the interface that nmstate shows for routes without a next hop.
const loopback = "lo"

func (r *resolution) sameFamily(path, text string, family ipfamily.Family) {
	if ip, err := parseAddress(text); text != "" && err == nil && !family.Has(ip) {
		r.add(path, "%s: want an address of %s, as the destination is", text, family)
	}
}

func (r *resolution) checkNextHop(path, name string, family ipfamily.Family) {
	i, ok := r.get(name)
	switch {
	case r.invalid[name]:
	case !ok:
		r.add(path, "%s: no such interface", name)
	case i.State == document.Absent || i.State == document.Down:
		r.add(path, "%s: it is %s", name, i.State)
	case r.isPort(i):
		r.add(path, "%s: it is a port of %s: name that", name, controllerOf(i))
	case family == ipfamily.IPv6 && i.IPv6 != nil && isFalse(i.IPv6.Enabled):
		r.add(path, "%s: IPv6 is not enabled there", name)
	case family == ipfamily.IPv4 && r.desired[name].IPv4 != nil && isFalse(r.desired[name].IPv4.Enabled):
		r.add(path, "%s: IPv4 is not enabled there", name)
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
	} else if shall != nil && isFalse(shall.Enabled) {
		return true
	}
	left := slices.Concat(addressesOf(shall), Staying(is, shall))
	return len(addressesOf(is)) > 0 && len(left) == 0 || shall != nil && shall.Addresses != nil && lostSource(left, route.Source)
}

func addressesOf(ip *document.IP) []document.Address {
	if ip == nil {
		return nil
	}
	return ip.Addresses
}

// lostSource reports whether an interface no longer has the source address of a route.
func lostSource(list []document.Address, source string) bool {
	return source != "" && !slices.ContainsFunc(list, func(a document.Address) bool { return canonical(a.IP) == canonical(source) })
}

// NormalRoute returns a route with table and metric filled in, and with prefixes and
// addresses in the one form in which they are compared.
func NormalRoute(route document.Route) document.Route {
	family := ipfamily.IPv4
	if prefix, err := netip.ParsePrefix(route.Destination); err == nil {
		route.Destination, family = prefix.Masked().String(), ipfamily.Of(prefix.Addr())
	}
	route.Protocol = ""
	if route.Table == nil || *route.Table == 0 {
		route.Table = new(int64(document.MainTable))
	}
	switch {
	case family == ipfamily.IPv6 && (route.Metric == nil || *route.Metric == 0):
		route.Metric = new(int64(metricIPv6))
	case route.Metric == nil:
		route.Metric = new(int64(0))
	}
	route.Address, route.Source = canonical(route.Address), canonical(route.Source)
	if route.Type != "" {
		route.Interface, route.Address = "", ""
	}
	return route
}

// RouteMatches reports whether a route has all that an absent one names.
func RouteMatches(pattern, route document.Route) bool {
	normal, all := NormalRoute(route), NormalRoute(pattern)
	return matchesWord(all.Destination, normal.Destination) && matchesWord(all.Interface, normal.Interface) &&
		matchesHop(pattern.Address, normal.Address) && matchesWord(pattern.Type, normal.Type) && matchesWord(all.Source, normal.Source) &&
		(pattern.Metric == nil || *all.Metric == *normal.Metric || *pattern.Metric == *normal.Metric) &&
		(pattern.Table == nil || *all.Table == *normal.Table) && matchesAttributes(pattern, route)
}

func matchesAttributes(pattern, route document.Route) bool {
	return matchesNumber(pattern.MTU, route.MTU) && matchesNumber(pattern.AdvMSS, route.AdvMSS) &&
		matchesNumber(pattern.InitCwnd, route.InitCwnd) && matchesNumber(pattern.InitRwnd, route.InitRwnd) &&
		matchesTruth(pattern.LockMTU, route.LockMTU) && matchesTruth(pattern.QuickACK, route.QuickACK)
}

// matchesTruth: a route without a field has it false.
func matchesTruth(pattern, truth *bool) bool { return pattern == nil || *pattern == isTrue(truth) }

// matchesHop: the address of all zeros is a next hop on the link.
func matchesHop(pattern, hop string) bool {
	if ip, err := netip.ParseAddr(pattern); err == nil && ip.IsUnspecified() {
		return hop == ""
	}
	return matchesWord(canonical(pattern), hop)
}

func matchesWord(pattern, word string) bool { return pattern == "" || pattern == word }

// prefix reads a prefix.
func (p *problems) prefix(path, text string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		p.add(path, "%s: want a prefix, such as 198.51.100.0/24", text)
		return prefix, false
	}
	return prefix, true
}
