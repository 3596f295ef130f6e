// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel/convert"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// Learned holds the address and the routes that a family of an interface has from a lease.
type Learned struct {
	// Index is the index of the interface, and Family its AF_INET or AF_INET6.
	Index  uint32
	Family int
	// Address is the zero Prefix for none. Valid and Preferred are its lifetimes in seconds.
	Address          netip.Prefix
	Valid, Preferred uint32
	Routes           []LearnedRoute
}

// LearnedRoute is a route of a lease.
type LearnedRoute struct {
	Destination netip.Prefix
	// Gateway is the zero Addr for a destination on the link. OnLink tells that no network of
	// the interface has it.
	Gateway netip.Addr
	OnLink  bool
	Table   uint32
	Metric  uint32
	// MTU bounds packets to the destination, 0 for the interface's own.
	MTU int
}

// Learn gives a family of an interface what a lease has, and takes away what earlier leases
// had. An address that somebody made static stays as it is.
func (k *Kernel) Learn(ctx context.Context, l Learned) error {
	if err := k.forgetAddresses(ctx, l); err != nil {
		return err
	}
	if err := k.learnAddress(ctx, l); err != nil {
		return err
	}
	return k.learnRoutes(l)
}

// learnAddress gives an interface the address of a lease, or the address the lifetimes. One
// with these lifetimes is left alone, so that nobody is told of a change.
func (k *Kernel) learnAddress(ctx context.Context, l Learned) error {
	if !l.Address.IsValid() {
		return nil
	}
	there := false
	err := k.eachAddress(ctx, l.Index, l.Family, func(a convert.Address, _ []byte) error {
		same := netip.PrefixFrom(a.IP, a.Bits) == l.Address
		there = there || same && (a.Origin != convert.OriginLease || near(a.Valid, l.Valid) && near(a.Preferred, l.Preferred))
		return nil
	})
	if err != nil || there {
		return err
	}
	if err := k.tell(ctx, unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, l.request()...); err != nil {
		return fmt.Errorf("add the address %s of a lease: %w", l.Address, err)
	}
	return nil
}

// near reports whether two lifetimes are one, but for the time that passed between two looks.
func near(a, b uint32) bool {
	const seconds = 2
	return max(a, b)-min(a, b) <= seconds
}

// forgetAddresses removes the addresses of leases but the one that shall be.
func (k *Kernel) forgetAddresses(ctx context.Context, l Learned) error {
	return k.removeAddresses(ctx, l.Index, l.Family, func(a convert.Address) bool {
		return a.Origin == convert.OriginLease && netip.PrefixFrom(a.IP, a.Bits) != l.Address
	})
}

// removeAddresses removes the addresses of a family of an interface that a function selects.
func (k *Kernel) removeAddresses(ctx context.Context, index uint32, family int, is func(convert.Address) bool) error {
	return k.eachAddress(ctx, index, family, func(a convert.Address, message []byte) error {
		if !is(a) {
			return nil
		}
		if err := unless(k.tell(ctx, unix.RTM_DELADDR, 0, raw(message)), unix.EADDRNOTAVAIL, unix.ENODEV); err != nil {
			return fmt.Errorf("remove the address %s: %w", a.IP, err)
		}
		return nil
	})
}

// eachAddress calls a function with the addresses of a family of an interface.
func (k *Kernel) eachAddress(
	ctx context.Context,
	index uint32,
	family int,
	do func(convert.Address, []byte) error,
) error {
	messages, err := k.dump(ctx, unix.RTM_GETADDR, nl.NewIfAddrmsg(family))
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, message := range messages {
		a, ok := convert.ReadAddress(message)
		if !ok || a.Device != index || a.IP.Is4() != (family == unix.AF_INET) {
			continue
		}
		if err := do(a, message); err != nil {
			return err
		}
	}
	return nil
}

// request describes the address of a lease. The kernel makes no route to its network: Routes
// has it, with the table and the metric of the others.
func (l Learned) request() []nl.NetlinkRequestData {
	header := nl.NewIfAddrmsg(l.Family)
	header.Prefixlen, header.Index = uint8(l.Address.Bits()), l.Index
	ip := l.Address.Addr().AsSlice()
	lifetimes := binary.NativeEndian.AppendUint32(nil, l.Preferred) // struct ifa_cacheinfo
	lifetimes = append(binary.NativeEndian.AppendUint32(lifetimes, l.Valid), make([]byte, 8)...)
	list := []*nl.RtAttr{
		nl.NewRtAttr(unix.IFA_LOCAL, ip), nl.NewRtAttr(unix.IFA_ADDRESS, ip), nl.NewRtAttr(unix.IFA_CACHEINFO, lifetimes),
		convert.Sized(convert.AttrOrigin, 1, convert.OriginLease), convert.Sized(unix.IFA_FLAGS, 4, unix.IFA_F_NOPREFIXROUTE),
	}
	const longestWithBroadcast = 30
	if l.Family == unix.AF_INET && l.Address.Bits() <= longestWithBroadcast {
		list = append(list, nl.NewRtAttr(unix.IFA_BROADCAST, broadcast(l.Address)))
	}
	return convert.Requests(header, list)
}

// broadcast returns the last address of a network of IPv4.
func broadcast(prefix netip.Prefix) []byte {
	octets := prefix.Addr().As4()
	all := binary.BigEndian.Uint32(octets[:]) | (1<<(32-prefix.Bits()) - 1)
	return binary.BigEndian.AppendUint32(nil, all)
}

// learnRoutes replaces the interface's routes of protocol DHCP by the routes of a lease.
func (k *Kernel) learnRoutes(l Learned) error {
	if l.Family == unix.AF_INET6 {
		return nil // DHCPv6 has no routes.
	}
	filter := &netlink.Route{LinkIndex: int(l.Index), Protocol: unix.RTPROT_DHCP, Table: unix.RT_TABLE_UNSPEC}
	list, err := k.handle.RouteListFiltered(
		l.Family,
		filter,
		netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE,
	)
	if err != nil {
		return fmt.Errorf("list the routes of leases: %w", err)
	}
	wanted := map[string]*netlink.Route{}
	var order []string
	for _, route := range l.Routes {
		r := route.of(l)
		wanted[routeKey(*r)], order = r, append(order, routeKey(*r))
	}
	for _, r := range list {
		if wanted[routeKey(r)] != nil {
			delete(wanted, routeKey(r))
			continue
		}
		if err := unless(k.handle.RouteDel(&r), unix.ESRCH, unix.ENODEV); err != nil {
			return fmt.Errorf("remove the route %s of a lease: %w", r.Dst, err)
		}
	}
	for _, key := range order {
		if r := wanted[key]; r != nil {
			if err := unless(k.handle.RouteAppend(r), unix.EEXIST); err != nil {
				return fmt.Errorf("add the route %s of a lease: %w", r.Dst, err)
			}
		}
	}
	return nil
}

func routeKey(r netlink.Route) string {
	return fmt.Sprint(r.Dst, r.Gw, r.Src, r.Table, r.Priority, r.MTU, r.Flags&int(netlink.FLAG_ONLINK))
}

// of makes a route of the kernel of one of a lease.
func (r LearnedRoute) of(l Learned) *netlink.Route {
	made := &netlink.Route{
		LinkIndex: int(l.Index), Protocol: unix.RTPROT_DHCP, Table: int(r.Table), Priority: int(r.Metric), MTU: r.MTU,
		Src: net.IP(l.Address.Addr().AsSlice()),
		Dst: &net.IPNet{
			IP:   r.Destination.Addr().AsSlice(),
			Mask: net.CIDRMask(r.Destination.Bits(), r.Destination.Addr().BitLen()),
		},
	}
	if !r.Gateway.IsValid() {
		made.Scope = netlink.SCOPE_LINK
		return made
	}
	made.Gw = r.Gateway.AsSlice()
	if r.OnLink {
		made.Flags = int(netlink.FLAG_ONLINK)
	}
	return made
}

// setAutomatic does the kernel's part of what comes automatically: autoconfiguration, and the
// end of what leases and routers gave.
func (k *Kernel) setAutomatic(ctx context.Context, step plan.SetAutomatic) error {
	l, err := k.link(ctx, step.Name)
	if err != nil {
		return err
	}
	family := unix.AF_INET
	if step.Family == document.FamilyIPv6 {
		family = unix.AF_INET6
		if step.IP.Autoconf != nil {
			if err := k.setAutoconf(ctx, l, step.IP); err != nil {
				return err
			}
		}
	}
	if step.IP.DHCP != nil && !*step.IP.DHCP {
		return k.Learn(ctx, Learned{Index: l.Index, Family: family})
	}
	return nil
}

// Values of accept_ra. A host that forwards, as nodes do, needs the second one.
const (
	refuseRA       = 0
	acceptRAAlways = 2
)

// defaultMetricRA is the kernel's metric of default routes of routers (IP6_RT_PRIO_USER).
const defaultMetricRA = 1024

// setAutoconf turns autoconfiguration of IPv6 on or off.
func (k *Kernel) setAutoconf(ctx context.Context, l convert.Link, ip document.IP) error {
	if !*ip.Autoconf {
		if err := k.writeIPv6(l.Name, []setting{{"accept_ra", refuseRA, false}, {"autoconf", 0, false}}); err != nil {
			return err
		}
		return k.forgetRouters(ctx, l)
	}
	if err := k.acceptRouters(ctx, l, ip); err != nil {
		return err
	}
	return k.solicit(l)
}

// acceptRouters lets the kernel take what routers advertise, as far as the settings want it.
func (k *Kernel) acceptRouters(ctx context.Context, l convert.Link, ip document.IP) error {
	is := func(p *bool) bool { return p == nil || *p }
	longest, metric, gateways := 0, defaultMetricRA, is(ip.AutoGateway) && is(ip.AutoRoutes)
	if is(ip.AutoRoutes) {
		longest = 128
	}
	if ip.AutoMetric != nil {
		metric = int(*ip.AutoMetric)
	}
	err := k.writeIPv6(l.Name, []setting{
		{"accept_ra_defrtr", int(convert.Bit(gateways)), false},
		{"accept_ra_pinfo", 1, false},
		{"accept_ra_rt_info_max_plen", longest, true},
		{"ra_defrtr_metric", metric, true},
		{"accept_ra", acceptRAAlways, false},
	})
	if err == nil && ip.Token != nil {
		err = k.setToken(ctx, l, *ip.Token) // which the kernel takes with accept_ra alone
	}
	if err == nil {
		err = k.writeIPv6(l.Name, []setting{{"autoconf", 1, false}})
	}
	if err == nil && !gateways {
		// Routes of earlier advertisements would stay until their end.
		err = k.forgetRoutes(ctx, l, func(r advertisedRoute) bool { return r.isDefault() || r.byRouter && longest == 0 })
	}
	return err
}

// setToken sets the last bits of addresses of autoconfiguration. The kernel removes those with
// other ones that it had by a token.
func (k *Kernel) setToken(ctx context.Context, l convert.Link, text string) error {
	token, err := netip.ParseAddr(text)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	octets := token.As16()
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(l.Index)
	settings := convert.Nested(
		unix.IFLA_AF_SPEC,
		[]*nl.RtAttr{convert.Nested(unix.AF_INET6, []*nl.RtAttr{nl.NewRtAttr(convert.AttrToken, octets[:])})},
	)
	if err := k.tell(ctx, unix.RTM_SETLINK, 0, header, settings); err != nil {
		return fmt.Errorf("set the token %s of %s: %w", text, l.Name, err)
	}
	return nil
}

// setting is a file of the kernel about IPv6 on a device. Kernels without an option lack some.
type setting struct {
	name  string
	value int
	maybe bool
}

func (k *Kernel) writeIPv6(device string, list []setting) error {
	for _, s := range list {
		path, err := hostdev.SettingPath(ipfamily.IPv6, device, s.name)
		if err != nil {
			return err
		}
		path = filepath.Join(hostdev.SettingsRoot, path)
		err = k.space.Do(func(ns.NetNS) error { return writeNumber(path, s.value) })
		if errors.Is(err, fs.ErrNotExist) && (s.maybe || s.value == 0) {
			continue // An interface without IPv6 is configured by nobody.
		}
		if err != nil {
			return fmt.Errorf("set %s of IPv6 on %s: %w", s.name, device, err)
		}
	}
	return nil
}

// forgetRouters removes what routers have advertised to a device.
func (k *Kernel) forgetRouters(ctx context.Context, l convert.Link) error {
	advertised := func(a convert.Address) bool { return a.OfRouter() || a.Flags&unix.IFA_F_TEMPORARY != 0 }
	if err := k.removeAddresses(ctx, l.Index, unix.AF_INET6, advertised); err != nil {
		return err
	}
	return k.forgetRoutes(ctx, l, func(advertisedRoute) bool { return true })
}

// forgetRoutes removes the advertised routes of a device that a function selects.
func (k *Kernel) forgetRoutes(ctx context.Context, l convert.Link, is func(advertisedRoute) bool) error {
	return k.eachAdvertised(ctx, func(route advertisedRoute, message []byte) error {
		if route.device != l.Index || !is(route) {
			return nil
		}
		if err := unless(k.tell(ctx, unix.RTM_DELROUTE, 0, raw(message)), unix.ESRCH, unix.ENODEV); err != nil {
			return fmt.Errorf("remove a route of a router's advertisement: %w", err)
		}
		return nil
	})
}

// linkRoute is a route to a network on a device.
type linkRoute struct {
	device      uint32
	destination netip.Prefix
}

// advertisedRoute is one that came by an advertisement: by a router, or to a network on the link.
type advertisedRoute struct {
	linkRoute
	byRouter bool
}

func (r advertisedRoute) isDefault() bool { return r.byRouter && r.destination.Bits() <= 0 }

// isConnected reports whether a route is the kernel's own to a network of IPv6 on the link.
func isConnected(r netlink.Route) bool {
	if r.Protocol != unix.RTPROT_KERNEL || r.Type != unix.RTN_UNICAST || r.Dst == nil || r.Dst.IP.To4() != nil {
		return false
	}
	bits, all := r.Dst.Mask.Size()
	return bits < all && r.Dst.IP.IsGlobalUnicast()
}

// advertisedNetworks returns the networks of the kernel's own routes from advertisements.
func (k *Kernel) advertisedNetworks(ctx context.Context, list []netlink.Route) (map[linkRoute]bool, error) {
	if !slices.ContainsFunc(list, isConnected) {
		return nil, nil
	}
	found := map[linkRoute]bool{}
	err := k.eachAdvertised(ctx, func(route advertisedRoute, _ []byte) error {
		found[route.linkRoute] = true
		return nil
	})
	return found, err
}

// eachAdvertised calls a function with the routes of IPv6 that came by advertisements. Those to
// networks on the link are the kernel's own as others are. They have an end, or else the
// device has no address of its own in the network.
func (k *Kernel) eachAdvertised(ctx context.Context, do func(advertisedRoute, []byte) error) error {
	own, err := k.ownNetworks(ctx)
	if err != nil {
		return err
	}
	header := make(raw, unix.SizeofRtMsg)
	header[0] = unix.AF_INET6
	messages, err := k.dump(ctx, unix.RTM_GETROUTE, header)
	if err != nil {
		return fmt.Errorf("list routes of advertisements: %w", err)
	}
	for _, message := range messages {
		const bits, protocol, kind, expires = 1, 5, 7, 8 // of struct rtmsg, and of struct rta_cacheinfo
		if len(message) < unix.SizeofRtMsg || message[kind] != unix.RTN_UNICAST {
			continue
		}
		rest := attribute.List(message[unix.SizeofRtMsg:])
		route := linkRoute{rest.Value(unix.RTA_OIF), netip.PrefixFrom(rest.Address(unix.RTA_DST), int(message[bits]))}
		cache := rest.Get(unix.RTA_CACHEINFO)
		ends := len(cache) >= expires+4 && binary.NativeEndian.Uint32(cache[expires:]) != 0
		onLink := message[protocol] == unix.RTPROT_KERNEL && rest.Address(unix.RTA_DST).IsGlobalUnicast() &&
			(ends || !own[route])
		byRouter := message[protocol] == unix.RTPROT_RA
		if byRouter || onLink {
			if err := do(advertisedRoute{route, byRouter}, message); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownNetworks returns the destinations of the kernel's routes for addresses of IPv6.
func (k *Kernel) ownNetworks(ctx context.Context) (map[linkRoute]bool, error) {
	messages, err := k.dump(ctx, unix.RTM_GETADDR, nl.NewIfAddrmsg(unix.AF_INET6))
	if err != nil {
		return nil, fmt.Errorf("list addresses of IPv6: %w", err)
	}
	own := map[linkRoute]bool{}
	for _, message := range messages {
		a, ok := convert.ReadAddress(message)
		if !ok || a.Flags&unix.IFA_F_NOPREFIXROUTE != 0 {
			continue
		}
		// The address of IFA_ADDRESS differs from IFA_LOCAL where the address has a peer.
		for _, ip := range []netip.Addr{a.IP, attribute.List(message[unix.SizeofIfAddrmsg:]).Address(unix.IFA_ADDRESS)} {
			own[linkRoute{a.Device, netip.PrefixFrom(ip, a.Bits).Masked()}] = true
		}
	}
	return own, nil
}

// Solicit asks the routers of an interface to advertise themselves.
func (k *Kernel) Solicit(ctx context.Context, name string) error {
	l, err := k.link(ctx, name)
	if err != nil {
		return err
	}
	return k.solicit(l)
}

// solicit asks routers to advertise themselves (RFC 4861). The kernel asks when a device comes
// up alone. A device that has no address for it yet, or no carrier, comes up later.
func (k *Kernel) solicit(l convert.Link) error {
	err := k.space.Do(func(ns.NetNS) error {
		socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
		if err != nil {
			return err
		}
		const kind, limit, size = 133, 255, 8
		allRouters := netip.MustParseAddr("ff02::2").As16()
		message := make([]byte, size)
		message[0] = kind
		return errors.Join(
			unix.SetsockoptInt(socket, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, limit),
			unless(
				unix.Sendto(socket, message, 0, &unix.SockaddrInet6{Addr: allRouters, ZoneId: l.Index}),
				unix.EADDRNOTAVAIL,
				unix.ENETUNREACH,
				unix.ENETDOWN,
				unix.ENODEV,
			),
			unix.Close(socket),
		)
	})
	if err != nil {
		return fmt.Errorf("ask the routers of %s: %w", l.Name, err)
	}
	return nil
}
