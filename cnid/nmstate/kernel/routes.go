// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// routes returns the routes of all tables, without the kernel's own. Config are those of
// administrators. names are the devices by their indexes.
func (k *Kernel) routes(ctx context.Context, names map[uint32]string) (*document.Routes, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list, err := rtnl.Complete(func() ([]netlink.Route, error) {
		return k.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	advertised, err := k.advertisedNetworks(ctx, list)
	if err != nil {
		return nil, err
	}
	routes := &document.Routes{Running: []document.Route{}, Config: []document.Route{}}
	for _, r := range list {
		if isConnected(r) && advertised[linkRoute{uint32(r.LinkIndex), prefixOf(r.Dst)}] {
			r.Protocol = unix.RTPROT_RA
		}
		shown := showRoute(r, names)
		routes.Running = append(routes.Running, shown...)
		if len(r.MultiPath) == 0 && (r.Protocol == unix.RTPROT_BOOT || r.Protocol == unix.RTPROT_STATIC) {
			routes.Config = append(routes.Config, shown...)
		}
	}
	slices.SortFunc(routes.Running, compareRoutes)
	slices.SortFunc(routes.Config, compareRoutes)
	return routes, nil
}

// showRoute returns a route as documents have it: once for each next hop, and not at all
// if it is the kernel's own or a routing daemon's, or if its device is gone.
func showRoute(r netlink.Route, names map[uint32]string) []document.Route {
	switch r.Protocol {
	case unix.RTPROT_BOOT, unix.RTPROT_STATIC, unix.RTPROT_RA, unix.RTPROT_DHCP:
	default:
		return nil
	}
	kind, ok := routeTypes()[r.Type]
	if !ok || r.Dst == nil {
		return nil
	}
	shown := document.Route{
		Destination: r.Dst.String(), Metric: new(int64(r.Priority)), Table: new(int64(r.Table)), Type: kind,
		Source: ipWord(r.Src),
	}
	showAttributes(&shown, r)
	if kind != "" {
		return []document.Route{target.NormalRoute(shown)}
	}
	hops := r.MultiPath
	if len(hops) == 0 {
		hops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via}}
	}
	var list []document.Route
	for _, hop := range hops {
		shown.Interface, shown.Address = names[uint32(hop.LinkIndex)], gateway(hop)
		if shown.Interface != "" {
			normal := target.NormalRoute(shown)
			normal.Protocol = protocols()[int(r.Protocol)]
			list = append(list, normal)
		}
	}
	return list
}

func prefixOf(network *net.IPNet) netip.Prefix {
	bits, _ := network.Mask.Size()
	ip, _ := netip.AddrFromSlice(network.IP)
	return netip.PrefixFrom(ip, bits)
}

// protocols are those of routes that come automatically.
func protocols() map[int]string {
	return map[int]string{unix.RTPROT_DHCP: document.ProtocolDHCP, unix.RTPROT_RA: document.ProtocolRA}
}

// showAttributes shows what TCP and path MTU discovery read of a route. 0 is no value.
func showAttributes(shown *document.Route, r netlink.Route) {
	for _, a := range attributesOf(shown, &r) {
		if *a.kernel > 0 {
			*a.field = new(*a.kernel)
		}
	}
	if r.MTULock {
		shown.LockMTU = new(true)
	}
	if r.QuickACK > 0 {
		shown.QuickACK = new(true)
	}
}

// setAttributes is the inverse of showAttributes.
func setAttributes(r *netlink.Route, want document.Route) {
	for _, a := range attributesOf(&want, r) {
		if *a.field != nil {
			*a.kernel = **a.field
		}
	}
	r.MTULock = want.LockMTU != nil && *want.LockMTU
	if want.QuickACK != nil && *want.QuickACK {
		r.QuickACK = 1
	}
}

// attributeOf is a number of a route, in a document and in the kernel.
type attributeOf struct {
	field  **int
	kernel *int
}

func attributesOf(route *document.Route, r *netlink.Route) []attributeOf {
	return []attributeOf{{&route.MTU, &r.MTU}, {&route.AdvMSS, &r.AdvMSS}, {&route.InitCwnd, &r.InitCwnd}, {&route.InitRwnd, &r.InitRwnd}}
}

// routeTypes are the types of routes that documents have.
func routeTypes() map[int]string {
	return map[int]string{
		unix.RTN_UNICAST: "", unix.RTN_BLACKHOLE: document.Blackhole, unix.RTN_UNREACHABLE: document.Unreachable, unix.RTN_PROHIBIT: document.Prohibit,
	}
}

// gateway is the address of a next hop, "" if there is none. It may be of the other family.
func gateway(hop *netlink.NexthopInfo) string {
	if via, ok := hop.Via.(*netlink.Via); ok && via != nil {
		return ipWord(via.Addr)
	}
	return ipWord(hop.Gw)
}

func ipWord(ip net.IP) string {
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		return ""
	}
	return a.Unmap().String()
}

// compareRoutes orders routes by table, family, destination, metric and next hop.
func compareRoutes(a, b document.Route) int {
	first, _ := netip.ParsePrefix(a.Destination)
	second, _ := netip.ParsePrefix(b.Destination)
	return cmp.Or(
		cmp.Compare(*a.Table, *b.Table), first.Addr().Compare(second.Addr()), cmp.Compare(first.Bits(), second.Bits()),
		cmp.Compare(*a.Metric, *b.Metric), cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Address, b.Address),
		cmp.Compare(a.Type, b.Type), cmp.Compare(a.Source, b.Source))
}

// route makes a route of the kernel of one of a document.
func (k *Kernel) route(ctx context.Context, want document.Route) (*netlink.Route, error) {
	want = target.NormalRoute(want)
	_, destination, err := net.ParseCIDR(want.Destination)
	if err != nil {
		return nil, fmt.Errorf("destination: %w", err)
	}
	r := &netlink.Route{Dst: destination, Table: int(*want.Table), Priority: int(*want.Metric), Type: -1}
	for number, name := range routeTypes() {
		if name == want.Type {
			r.Type = number
		}
	}
	if r.Type < 0 {
		return nil, fmt.Errorf("route-type: %s: want blackhole, unreachable or prohibit", want.Type)
	}
	setAttributes(r, want)
	if want.Interface != "" {
		l, err := k.link(ctx, want.Interface)
		if err != nil {
			return nil, fmt.Errorf("next-hop-interface: %w", err)
		}
		r.LinkIndex = int(l.index)
	}
	return r, setAddresses(r, want)
}

// setAddresses sets the next hop and the source of a route.
func setAddresses(r *netlink.Route, want document.Route) error {
	if want.Source != "" {
		if r.Src = net.ParseIP(want.Source); r.Src == nil {
			return fmt.Errorf("source: %s: want an address", want.Source)
		}
	}
	if want.Address == "" {
		return nil
	}
	hop := net.ParseIP(want.Address)
	switch {
	case hop == nil:
		return fmt.Errorf("next-hop-address: %s: want an address", want.Address)
	case hop.To4() == nil && r.Dst.IP.To4() != nil:
		r.Via = &netlink.Via{AddrFamily: unix.AF_INET6, Addr: hop}
	default:
		r.Gw = hop
	}
	return nil
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
		names[l.index] = l.name
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
