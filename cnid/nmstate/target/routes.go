// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"net/netip"
	"slices"

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
	var added []int
	for n, route := range want {
		path := fmt.Sprintf("routes.config[%d]", n)
		if r.word(path+".state", route.State, document.Absent); route.State != document.Absent {
			added = append(added, n)
			continue
		}
		if r.checkPattern(path, route) {
			list = slices.DeleteFunc(list, func(other document.Route) bool { return RouteMatches(route, other) })
		}
	}
	seen := map[string]document.Route{}
	for _, route := range list {
		seen[RouteKey(route)] = route
	}
	for _, n := range added {
		path := fmt.Sprintf("routes.config[%d]", n)
		if before := len(r.problems); !r.checkRoute(path, want[n]) || len(r.problems) > before {
			continue
		}
		list = r.addRoute(list, seen, path, NormalRoute(want[n]))
	}
	return list
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
	case !SameRoute(other, route):
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
	if empty := (document.Route{State: document.Absent}); route == empty {
		r.add(path, "an absent route without any field matches all: name at least one")
	}
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
	four := prefix.Addr().Is4()
	r.sameFamily(path+".next-hop-address", route.Address, four)
	r.sameFamily(path+".source", route.Source, four)
	switch {
	case route.Type != "" && (route.Interface != "" || route.Address != ""):
		r.add(path+".route-type", "%s: such a route has no next hop: remove next-hop-interface and next-hop-address", route.Type)
	case route.Type == "" && route.Interface == "":
		r.add(path+".next-hop-interface", "missing: a route needs it, but for one of route-type blackhole, unreachable or prohibit")
	case route.Type == "":
		r.checkNextHop(path+".next-hop-interface", route.Interface, four)
	}
	return true
}

func (r *resolution) sameFamily(path, text string, four bool) {
	if ip, err := parseAddress(text); text != "" && err == nil && ip.Is4() != four {
		p := map[bool]string{true: "IPv4", false: "IPv6"}[four]
		r.add(path, "%s: want an address of %s, as the destination is", text, p)
	}
}

func (r *resolution) checkNextHop(path, name string, four bool) {
	i, ok := r.get(name)
	switch {
	case r.invalid[name]:
	case !ok:
		r.add(path, "%s: no such interface", name)
	case i.State == document.Absent || i.State == document.Down:
		r.add(path, "%s: it is %s", name, i.State)
	case r.isPort(i):
		r.add(path, "%s: it is a port of %s: name that", name, controllerOf(i))
	case !four && i.IPv6 != nil && isFalse(i.IPv6.Enabled):
		r.add(path, "%s: IPv6 is not enabled there", name)
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
	route.Address, route.Source = canonical(route.Address), canonical(route.Source)
	if route.Type != "" {
		route.Interface, route.Address = "", ""
	}
	return route
}

// RouteMatches reports whether a route has all that an absent one names.
func RouteMatches(pattern, route document.Route) bool {
	normal, all := NormalRoute(route), NormalRoute(pattern)
	return matchesWord(all.Destination, normal.Destination) && matchesWord(pattern.Interface, normal.Interface) &&
		matchesWord(canonical(pattern.Address), normal.Address) && matchesWord(pattern.Type, normal.Type) && matchesWord(all.Source, normal.Source) &&
		(pattern.Metric == nil || *all.Metric == *normal.Metric || *pattern.Metric == *normal.Metric) &&
		(pattern.Table == nil || *all.Table == *normal.Table)
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
