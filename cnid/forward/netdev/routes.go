// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// RouteProtocol marks Alioth's routes (the field rtm_protocol of rtnetlink).
const RouteProtocol = 161

// route is a route of Alioth: destination and device, with a preferred source.
type route struct {
	dst    netip.Prefix
	device int
	source netip.Addr
}

// wantedRoutes are the routes to the pods' shadows, with the node's own shadow as source
// so that a pod's reply is unambiguous, and those to the default VPC, sorted.
func wantedRoutes(s hostdev.State, node int) []route {
	var list []route
	for _, pod := range s.Pods {
		for _, shadow := range pod.Shadows {
			if source, ok := ofFamily(s.Shadows, shadow); ok {
				list = append(list, route{netip.PrefixFrom(shadow, shadow.BitLen()), pod.Ifindex, source})
			}
		}
	}
	for _, prefix := range s.Node.Prefixes {
		if source, ok := ofFamily(s.Node.Addrs, prefix.Addr()); ok {
			list = append(list, route{prefix, node, source})
		}
	}
	slices.SortFunc(list, func(a, b route) int {
		return cmp.Or(a.dst.Compare(b.dst), cmp.Compare(a.device, b.device))
	})
	return list
}

// diffRoutes returns the routes to add, and Alioth's routes to delete. A changed route is
// only added: it replaces the old one.
func diffRoutes(have, want []route) (add, remove []route) {
	there, wanted := map[route]bool{}, map[netip.Prefix]bool{}
	for _, r := range have {
		there[r] = true
	}
	for _, r := range want {
		wanted[r.dst] = true
		if !there[r] {
			add = append(add, r)
		}
	}
	for _, r := range have {
		if !wanted[r.dst] {
			remove = append(remove, r)
		}
	}
	return add, remove
}

func (h *Host) applyRoutes(s hostdev.State, have []route) error {
	node, err := h.Existing([]string{hostdev.Node})
	if err != nil {
		return err
	}
	want, believed := wantedRoutes(s, node[hostdev.Node]), h.routes
	h.routes = want
	add, remove := diffRoutes(have, want)
	var failures []error
	for _, r := range remove {
		failures = append(failures, onDevice(r.device, h.deleteRoute(r)))
	}
	pods := map[int]hostdev.Pod{}
	for _, pod := range s.Pods {
		pods[pod.Ifindex] = pod
	}
	h.settled = false // a change for a new route does not count as a repair
	for _, r := range add {
		added, err := h.addRoute(r, pods[r.device])
		if err != nil {
			failures = append(failures, onDevice(r.device, err))
		}
		if added && slices.Contains(believed, r) {
			h.repaired = append(h.repaired, Repair{RepairRoute, "route to " + r.dst.String()})
		}
	}
	return errors.Join(failures...)
}

// addRoute adds a route; pod is the one whose device it takes, or the zero
// value. If the device is gone, it adds nothing.
func (h *Host) addRoute(r route, pod hostdev.Pod) (added bool, err error) {
	if r.dst.Addr().Is6() && !h.sysctls.hasIPv6() {
		return false, nil
	}
	if pod.Ifindex != 0 {
		if err := h.openPod(pod); err != nil {
			return false, err
		}
	}
	err = h.replaceRoute(r)
	if errors.Is(err, unix.ENETDOWN) {
		// The device was set down, and the kernel deleted its routes.
		up := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: r.device}}
		if err = h.netlink.LinkSetUp(up); err == nil {
			err = h.replaceRoute(r)
		}
	}
	if errors.Is(err, unix.ENODEV) {
		// The pod has left; its record will follow.
		h.log.Debug("device of a route is gone", "destination", r.dst.String(), "ifindex", r.device)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("add route to %v by device %d: %w", r.dst, r.device, err)
	}
	return true, nil
}

func (h *Host) replaceRoute(r route) error {
	return h.netlink.RouteReplace(&netlink.Route{
		Dst: ipNet(r.dst), LinkIndex: r.device, Src: r.source.AsSlice(),
		Protocol: RouteProtocol, Scope: netlink.SCOPE_LINK,
	})
}

func (h *Host) deleteRoute(r route) error {
	err := h.netlink.RouteDel(&netlink.Route{
		Dst: ipNet(r.dst), LinkIndex: r.device, Protocol: RouteProtocol, Scope: netlink.SCOPE_LINK,
	})
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete route to %v by device %d: %w", r.dst, r.device, err)
	}
	return nil
}

func (h *Host) deleteRoutes() error {
	have, err := h.ownRoutes()
	if err != nil {
		return err
	}
	var failures []error
	for _, r := range have {
		failures = append(failures, h.deleteRoute(r))
	}
	return errors.Join(failures...)
}

// ownRoutes are the routes of the main table with Alioth's protocol number.
func (h *Host) ownRoutes() ([]route, error) {
	filter := &netlink.Route{Protocol: RouteProtocol}
	found, err := rtnl.Complete(func() ([]netlink.Route, error) {
		return h.netlink.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var list []route
	for _, r := range found {
		source, _ := netip.AddrFromSlice(r.Src)
		list = append(list, route{dst: prefixOf(r.Dst), device: r.LinkIndex, source: source.Unmap()})
	}
	return list, nil
}

// ofFamily returns the address of the list that is of the same family as
// like.
func ofFamily(list []netip.Addr, like netip.Addr) (netip.Addr, bool) {
	for _, a := range list {
		if a.Is4() == like.Is4() {
			return a, true
		}
	}
	return netip.Addr{}, false
}
