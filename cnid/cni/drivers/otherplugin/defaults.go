// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package otherplugin

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// route gives the interface the default routes that it may have: it removes others, which plugins
// have made, and adds routes that the pod requests (NPWG 1.3, section 4.1). It also removes a
// removed route from the kept result, because a plugin's CHECK compares the two.
func (d *Driver) route(link *ifdriver.Link, spec ifdriver.Spec) error {
	if spec.Delegate.DefaultRoutes == ifdriver.OwnDefaultRoutes && len(spec.Routes) == 0 && len(spec.Rules) == 0 {
		return nil
	}
	err := within(spec.NetnsPath, func(h *rtnl.Socket) error {
		removed, err := removeDefaults(h, spec)
		if err != nil {
			return fmt.Errorf("remove default routes of %s: %w", spec.IfName, err)
		}
		if len(removed) > 0 {
			if link.Result, err = d.delegates.DropRoutes(spec.ContainerID, spec.IfName, removed); err != nil {
				return err
			}
			link.Notices = append(link.Notices, kept(spec, removed)...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return finish(link.Result, spec)
}

// kept returns events about default routes that were left out in favour of others that the pod
// has by itself. If the pod requests its default routes elsewhere, such routes cause no event.
func kept(spec ifdriver.Spec, removed []netif.Route) (list []ifdriver.Notice) {
	if spec.Delegate.DefaultRoutes != ifdriver.MissingDefaultRoutes {
		return nil
	}
	remedy := fmt.Sprintf("add \"default-route\": [] to the selection in the annotation %s", annotations.NetworksKey)
	if !spec.Delegate.InOrder {
		remedy = "list the interface before that one"
	}
	for _, route := range removed {
		way := ""
		if route.Gateway.IsValid() {
			way = " by " + route.Gateway.String()
		}
		list = append(list, ifdriver.Notice{Reason: v1alpha1.DefaultRouteKeptReason, Message: fmt.Sprintf(
			"interface %s: the route to %s%s of its CNI plugins was removed, because the pod has its default route by another interface: %s if it shall lead here, or remove the route from the configuration of the plugins",
			spec.IfName,
			route.Dst,
			way,
			remedy,
		)})
	}
	return list
}

// removeDefaults removes the default routes that the interface may not have, and returns
// them.
func removeDefaults(h *rtnl.Socket, spec ifdriver.Spec) (removed []netif.Route, err error) {
	index, err := h.IndexOf(spec.IfName)
	if err != nil {
		return nil, err
	}
	all, err := defaultHops(h)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.LinkIndex != index || !surplus(one, all, spec) {
			continue
		}
		if err := h.RouteDel(&one.Route); err != nil {
			return removed, err
		}
		removed = append(removed, one.plain())
	}
	return removed, nil
}

// surplus reports whether the interface of a hop may not have its route.
func surplus(one hop, all []hop, spec ifdriver.Spec) bool {
	switch spec.Delegate.DefaultRoutes {
	case ifdriver.NoDefaultRoutes:
		return true
	case ifdriver.MissingDefaultRoutes:
		return slices.ContainsFunc(
			all,
			func(other hop) bool { return other.LinkIndex != one.LinkIndex && other.Family == one.Family },
		)
	case ifdriver.OwnDefaultRoutes:
	}
	made := one.plain()
	replaced := func(wanted netif.Route) bool { return wanted.Dst == made.Dst && wanted.Gateway != made.Gateway }
	return slices.ContainsFunc(spec.Routes, replaced)
}

// hop is a default route by one device: one of the ways of a route that has several.
type hop struct{ netlink.Route }

// plain returns the route as results have it.
func (o hop) plain() netif.Route {
	all := netip.IPv6Unspecified()
	if o.Family == unix.AF_INET {
		all = netip.IPv4Unspecified()
	}
	gateway, _ := netip.AddrFromSlice(o.Gw)
	return netif.Route{Dst: netip.PrefixFrom(all, 0), Gateway: gateway.Unmap()}
}

// defaultHops lists the default routes in the main table, without routes that the kernel learns
// from routers.
func defaultHops(h *rtnl.Socket) ([]hop, error) {
	var hops []hop
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		main := &netlink.Route{Table: unix.RT_TABLE_MAIN}
		list, err := rtnl.Complete(func() ([]netlink.Route, error) {
			return h.RouteListFiltered(family, main, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, route := range list {
			if toEverywhere(route.Dst) && route.Type == unix.RTN_UNICAST && route.Protocol != unix.RTPROT_RA {
				hops = append(hops, hopsOf(route, family)...)
			}
		}
	}
	return hops, nil
}

// hopsOf splits a route into one route for each of its devices, in the form that deletes it.
func hopsOf(route netlink.Route, family int) (hops []hop) {
	bits := 8 * net.IPv4len
	if family == unix.AF_INET6 {
		bits = 8 * net.IPv6len
	}
	one := netlink.Route{
		Family: family, Table: route.Table, Scope: route.Scope, Priority: route.Priority, Protocol: route.Protocol,
		Dst: &net.IPNet{IP: make(net.IP, bits/8), Mask: net.CIDRMask(0, bits)}, LinkIndex: route.LinkIndex, Gw: route.Gw,
	}
	if len(route.MultiPath) == 0 {
		return []hop{{one}}
	}
	for _, way := range route.MultiPath {
		one.LinkIndex, one.Gw = way.LinkIndex, way.Gw
		hops = append(hops, hop{one})
	}
	return hops
}

func toEverywhere(dst *net.IPNet) bool {
	if dst == nil {
		return true
	}
	ones, _ := dst.Mask.Size()
	return ones == 0
}
