// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

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
		return []document.Route{compare.NormalRoute(shown)}
	}
	hops := r.MultiPath
	if len(hops) == 0 {
		hops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via}}
	}
	var list []document.Route
	for _, hop := range hops {
		shown.Interface, shown.Address = names[uint32(hop.LinkIndex)], gateway(hop)
		if shown.Interface != "" {
			normal := compare.NormalRoute(shown)
			normal.Protocol = protocols()[int(r.Protocol)]
			list = append(list, normal)
		}
	}
	return list
}

// protocols returns the protocols of automatic routes.
func protocols() map[int]string {
	return map[int]string{unix.RTPROT_DHCP: document.ProtocolDHCP, unix.RTPROT_RA: document.ProtocolRA}
}

// showAttributes shows the attributes of a route for TCP and for path MTU discovery. 0 means that
// an attribute has not been set.
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
	return []attributeOf{
		{&route.MTU, &r.MTU},
		{&route.AdvMSS, &r.AdvMSS},
		{&route.InitCwnd, &r.InitCwnd},
		{&route.InitRwnd, &r.InitRwnd},
	}
}

// routeTypes are the types of routes that documents have.
func routeTypes() map[int]string {
	return map[int]string{
		unix.RTN_UNICAST: "", unix.RTN_BLACKHOLE: document.Blackhole, unix.RTN_UNREACHABLE: document.Unreachable,
		unix.RTN_PROHIBIT: document.Prohibit,
	}
}

// gateway returns the address of a next hop, "" without an address. Its family may differ from
// the route's.
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

// ReadRoutes returns routes as documents have them, without the kernel's own routes. Config are
// the routes of administrators. names are the devices by their indexes.
func ReadRoutes(list []netlink.Route, names map[uint32]string) *document.Routes {
	routes := &document.Routes{Running: []document.Route{}, Config: []document.Route{}}
	for _, r := range list {
		shown := showRoute(r, names)
		routes.Running = append(routes.Running, shown...)
		if len(r.MultiPath) == 0 && (r.Protocol == unix.RTPROT_BOOT || r.Protocol == unix.RTPROT_STATIC) {
			routes.Config = append(routes.Config, shown...)
		}
	}
	slices.SortFunc(routes.Running, compareRoutes)
	slices.SortFunc(routes.Config, compareRoutes)
	return routes
}

// Route makes a route of the kernel of one of a document. index returns the index of a device.
func Route(want document.Route, index func(name string) (uint32, error)) (*netlink.Route, error) {
	want = compare.NormalRoute(want)
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
		device, err := index(want.Interface)
		if err != nil {
			return nil, fmt.Errorf("next-hop-interface: %w", err)
		}
		r.LinkIndex = int(device)
	}
	return r, setAddresses(r, want)
}
