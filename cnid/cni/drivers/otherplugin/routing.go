// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package otherplugin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// routing has the routes and rules that the driver adds to an interface after the plugins have
// made it. No plugin has made these routes.
type routing struct {
	routes []netif.Route
	rules  []netif.Rule
}

func (r routing) empty() bool { return len(r.routes) == 0 && len(r.rules) == 0 }

// routingOf returns the routes and rules of an interface with the result of its plugins. As
// in DANM, an interface without an address of a family has none of the network's routes of
// that family, and a gateway needs no route to itself.
func routingOf(result *ifdriver.Result, spec ifdriver.Spec) (routing, error) {
	own := prefixesOf(result, spec.IfName)
	var r routing
	for _, rule := range spec.Rules {
		of := ownRules(rule, own)
		if len(of) == 0 {
			return routing{}, fmt.Errorf(
				"\"proutes\": the plugins gave %s no address of the family of table %d, and its packets can't be told apart: remove the routes from the pod's list, or request an address",
				spec.IfName,
				rule.Table,
			)
		}
		r.rules = append(r.rules, of...)
		r.routes = append(r.routes, ownRanges(rule, own)...)
	}
	for _, route := range spec.Routes {
		if result.Lacks(route, spec.IfName) {
			r.routes = append(r.routes, route)
		}
	}
	return r, nil
}

// ownRules returns a rule for each address of the interface, if plugins have chosen it.
func ownRules(rule netif.Rule, own []netip.Prefix) []netif.Rule {
	if !rule.From.Addr().IsUnspecified() {
		return []netif.Rule{rule}
	}
	var all []netif.Rule
	for _, prefix := range own {
		if ip := prefix.Addr(); ip.Is4() == rule.From.Addr().Is4() {
			all = append(all, netif.Rule{From: netip.PrefixFrom(ip, ip.BitLen()), Table: rule.Table})
		}
	}
	return all
}

// ownRanges returns the routes to the ranges of addresses that plugins have chosen, for the
// table of a rule: packets of these addresses are routed by it alone.
func ownRanges(rule netif.Rule, own []netip.Prefix) []netif.Route {
	if !rule.From.Addr().IsUnspecified() {
		return nil
	}
	var all []netif.Route
	for _, prefix := range own {
		route := netif.Route{Dst: prefix.Masked(), Table: rule.Table}
		if prefix.Addr().Is4() == rule.From.Addr().Is4() && !prefix.IsSingleIP() && !slices.Contains(all, route) {
			all = append(all, route)
		}
	}
	return all
}

func prefixesOf(result *ifdriver.Result, ifName string) []netip.Prefix {
	var list []netip.Prefix
	for _, addr := range result.AddrsOf(ifName) {
		list = append(list, addr.Addr)
	}
	return list
}

// Finish implements ifdriver.Finisher. Plugins that ran side by side have made default routes
// in any order: of each family the first interface with a default route keeps it. Then the
// interfaces have their own routing, one after the other.
func (d *Driver) Finish(_ context.Context, list []*ifdriver.Made) error {
	for i, routes := range surplusRoutes(list) {
		if err := d.leaveOut(list[i], routes); err != nil {
			return fmt.Errorf(
				"leave %s of %s without a default route, because another interface has it: %w",
				list[i].IfName,
				list[i].Description,
				err,
			)
		}
	}
	for _, one := range list {
		if one.Delegate == nil || one.Delegate.InOrder {
			continue
		}
		if err := finish(one.Link.Result, one.Spec); err != nil {
			return fmt.Errorf("attach %s of %s: %w", one.IfName, one.Description, err)
		}
	}
	return nil
}

// leaveOut removes default routes of the plugins of an interface. It also removes them from the
// kept result, because a plugin's CHECK compares the two.
func (d *Driver) leaveOut(one *ifdriver.Made, routes []netif.Route) error {
	err := within(one.NetnsPath, func(h *rtnl.Socket) error { return podside.RemoveRoutes(h, one.IfName, routes) })
	if err != nil {
		return err
	}
	one.Link.Notices = append(one.Link.Notices, kept(one.Spec, routes)...)
	one.Link.Result, err = d.delegates.DropRoutes(one.ContainerID, one.IfName, routes)
	return err
}

// surplusRoutes returns default routes of plugins, by the index of the interface in the list. Of
// each family it returns the routes of all interfaces after the first one with a default route.
// It also returns the default routes of interfaces that may have none.
func surplusRoutes(list []*ifdriver.Made) map[int][]netif.Route {
	surplus := map[int][]netif.Route{}
	for _, family := range ipfamily.Both {
		taken := false
		for i, one := range list {
			if taken || mayHaveNone(one) {
				if routes := defaultsOf(one.Link.Result, family); len(routes) > 0 {
					surplus[i] = append(surplus[i], routes...)
				}
				continue
			}
			taken = hasDefault(one, family)
		}
	}
	return surplus
}

func mayHaveNone(one *ifdriver.Made) bool {
	return one.Delegate != nil && one.Delegate.DefaultRoutes == ifdriver.NoDefaultRoutes
}

// hasDefault reports whether an interface has a default route of a family, or is to have one.
func hasDefault(one *ifdriver.Made, family ipfamily.Family) bool {
	result := one.Link.Result
	return slices.ContainsFunc(one.Gateways, func(gateway netip.Addr) bool { return family.Has(gateway) }) ||
		slices.ContainsFunc(one.Routes, func(r netif.Route) bool {
			return r.Table == 0 && r.Dst.Bits() == 0 && family.Has(r.Dst.Addr()) &&
				(result == nil || result.Lacks(r, one.IfName))
		}) ||
		len(defaultsOf(result, family)) > 0
}

// defaultsOf returns the default routes of a family in a result.
func defaultsOf(result *ifdriver.Result, family ipfamily.Family) (routes []netif.Route) {
	if result == nil {
		return nil
	}
	for _, r := range result.Routes {
		if isDefault(r, family) {
			routes = append(routes, netif.Route{Dst: r.Dst, Gateway: result.GatewayOf(r)})
		}
	}
	return routes
}

// isDefault reports whether a route is a default route of a family in the main table.
func isDefault(r ifdriver.ResultRoute, family ipfamily.Family) bool {
	return r.Dst.Bits() == 0 && family.Has(r.Dst.Addr()) && (r.Table == 0 || r.Table == unix.RT_TABLE_MAIN)
}

// finish adds the routing of an interface that the plugins have made. For a static type of DANM
// it adds the routing that the network and the pod request. For a definition it adds the default
// routes that the pod requests (NPWG 1.3, section 4.1).
func finish(result *ifdriver.Result, spec ifdriver.Spec) error {
	what := `routes of the network and "proutes"`
	r, err := routingOf(result, spec)
	if !spec.Delegate.ByNetworkID() { // requested, whatever addresses the plugins report
		what, r.routes = "default-route", slices.DeleteFunc(slices.Clone(spec.Routes), result.HasRoute)
	}
	if err != nil || r.empty() {
		return err
	}
	if err := within(spec.NetnsPath, func(h *rtnl.Socket) error { return r.add(h, spec.IfName) }); err != nil {
		return fmt.Errorf(
			"%s (is each gateway on the link of %s, which has %v, and has no other interface a route to the same destination?): %w",
			what,
			spec.IfName,
			prefixesOf(result, spec.IfName),
			err,
		)
	}
	return nil
}

// add makes the routing. A route that exists although no plugin has reported it is not an error.
func (r routing) add(h *rtnl.Socket, ifName string) error {
	if err := podside.AddRoutes(h, ifName, r.routes); err != nil {
		if check(h, ifdriver.Spec{IfName: ifName, Config: netif.Config{Routes: r.routes}}) != nil {
			return err
		}
	}
	return podside.AddRules(h, r.rules)
}

// checkRouting finds a route or rule that is gone, which is an ifdriver.ErrMismatch.
func checkRouting(result *ifdriver.Result, spec ifdriver.Spec) error {
	r, err := routingOf(result, spec)
	if err != nil {
		return podside.Mismatch("%v", err)
	}
	if r.empty() {
		return nil
	}
	return within(spec.NetnsPath, func(h *rtnl.Socket) error {
		return check(h, ifdriver.Spec{IfName: spec.IfName, Config: netif.Config{Routes: r.routes, Rules: r.rules}})
	})
}

func check(h *rtnl.Socket, spec ifdriver.Spec) error {
	link, err := h.LinkByName(spec.IfName)
	if err != nil {
		return fmt.Errorf("find %s: %w", spec.IfName, err)
	}
	return podside.CheckRoutes(h.Handle, link, spec)
}

// removeRules removes the rules of an interface whose namespace is alive.
func (d *Driver) removeRules(containerID, ifName string) error {
	kept, err := d.delegates.Get(containerID, ifName)
	if err != nil || len(kept.Rules) == 0 || !d.delegates.Alive(kept) {
		return nil //nolint:nilerr // DEL reports an unreadable file
	}
	result, err := kept.Result()
	if err != nil {
		return nil //nolint:nilerr // the ADD has not come as far as the rules
	}
	own := prefixesOf(result, ifName)
	var rules []netif.Rule
	for _, rule := range kept.Rules {
		rules = append(rules, ownRules(rule, own)...)
	}
	err = within(kept.NetnsPath, func(h *rtnl.Socket) error { return podside.RemoveRules(h, rules) })
	if errors.Is(err, netns.ErrGone) {
		return nil
	}
	return err
}

// within runs f with a socket of the pod's namespace.
func within(path string, f func(*rtnl.Socket) error) error {
	pod, err := netns.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = pod.Close() }()
	return podside.Within(pod, f)
}
