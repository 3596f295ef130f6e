// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel/convert"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// routes returns the routes of all tables. names are the devices by their indexes.
func (k *Kernel) routes(ctx context.Context, names map[uint32]string) (*document.Routes, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list, err := rtnl.Complete(func() ([]netlink.Route, error) {
		return k.handle.RouteListFiltered(
			netlink.FAMILY_ALL,
			&netlink.Route{Table: unix.RT_TABLE_UNSPEC},
			netlink.RT_FILTER_TABLE,
		)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	advertised, err := k.advertisedNetworks(ctx, list)
	if err != nil {
		return nil, err
	}
	for n, r := range list {
		if isConnected(r) && advertised[linkRoute{uint32(r.LinkIndex), prefixOf(r.Dst)}] {
			list[n].Protocol = unix.RTPROT_RA
		}
	}
	return convert.ReadRoutes(list, names), nil
}

func prefixOf(network *net.IPNet) netip.Prefix {
	bits, _ := network.Mask.Size()
	ip, _ := netip.AddrFromSlice(network.IP)
	return netip.PrefixFrom(ip, bits)
}

// route makes a route of the kernel of one of a document.
func (k *Kernel) route(ctx context.Context, want document.Route) (*netlink.Route, error) {
	return convert.Route(want, func(name string) (uint32, error) { return k.Index(ctx, name) })
}

func (k *Kernel) addRoute(ctx context.Context, step plan.AddRoute) error {
	r, err := k.route(ctx, step.Route)
	if err != nil {
		return err
	}
	r.Protocol = unix.RTPROT_STATIC
	if r.Type == unix.RTN_UNICAST && r.Gw == nil && r.Via == nil {
		// Such a route may lead to the next hops of others.
		r.Scope = netlink.SCOPE_LINK
	}
	err = k.handle.RouteAdd(r)
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
		// No route leads to the gateway. The document has put it on this link.
		r.Flags |= int(netlink.FLAG_ONLINK)
		err = k.handle.RouteAdd(r)
		if errors.Is(err, unix.EINVAL) && r.Gw != nil && r.Gw.To4() == nil {
			err = k.addByLink(r)
		}
	}
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	there, listErr := k.has(ctx, step)
	if listErr != nil {
		return listErr
	}
	if there {
		return nil
	}
	return fmt.Errorf("another route has that destination, table and metric: remove it, or choose another metric: %w", err)
}

// addByLink adds a route by a gateway of IPv6 that is in a network of another link. The kernel
// takes the gateway for one of this link while a route to it says so.
func (k *Kernel) addByLink(r *netlink.Route) error {
	const bits = 128
	way := &netlink.Route{
		LinkIndex: r.LinkIndex, Protocol: unix.RTPROT_STATIC, Scope: netlink.SCOPE_LINK,
		Dst: &net.IPNet{IP: r.Gw, Mask: net.CIDRMask(bits, bits)},
	}
	if err := k.handle.RouteAdd(way); err != nil {
		return fmt.Errorf("lead to the gateway: %w", err)
	}
	r.Flags &^= int(netlink.FLAG_ONLINK)
	err := k.handle.RouteAdd(r)
	return errors.Join(err, unless(k.handle.RouteDel(way), unix.ESRCH, unix.ENODEV))
}

// has reports whether a route is there. Two routes are the same if the steps that add them
// have the same words.
func (k *Kernel) has(ctx context.Context, step plan.AddRoute) (bool, error) {
	list, err := k.links(ctx)
	if err != nil {
		return false, err
	}
	names := map[uint32]string{}
	for _, l := range list {
		names[l.Index] = l.Name
	}
	routes, err := k.routes(ctx, names)
	if err != nil {
		return false, err
	}
	same := func(r document.Route) bool { return plan.AddRoute{Route: r}.String() == step.String() }
	return slices.ContainsFunc(routes.Config, same), nil
}

func (k *Kernel) removeRoute(ctx context.Context, step plan.RemoveRoute) error {
	r, err := k.route(ctx, step.Route)
	if errors.Is(err, errNoDevice) {
		return nil // The route went with its device.
	}
	if err != nil {
		return err
	}
	r.Scope = netlink.SCOPE_NOWHERE
	return unless(k.handle.RouteDel(r), unix.ESRCH, unix.ENODEV)
}
