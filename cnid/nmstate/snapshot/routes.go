// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// restoreRoutes adds the routes that are missing, and removes those that the change added.
// Administrators and routing daemons go on meanwhile, so their routes stay.
func (p *planner) restoreRoutes(before, present, now []Message) {
	c, settled := routes(), len(p.requests) == 0
	have := make(map[string]bool, len(now))
	others := p.removeRoutes(before, present, now, have, settled)
	rewritten := rewrittenBy(others)
	missing := func(m Message) bool {
		key := c.canonical(m)
		return p.own[key] && !have[key] && !p.replaced[key] && !rewritten(m) && p.remains(m) && (!isKernels(m) || settled && m[7] == unix.RTN_UNICAST)
	}
	for _, m := range p.inOrder(before, now, missing, settled) {
		if p.canExist(m) {
			p.addRoute(m)
		}
	}
}

// addRoute requests to add a route. The kernel takes a route of IPv6, and one of IPv4 by a gateway
// of IPv6, on devices with IPv6 alone. It keeps the route when somebody turns IPv6 off afterwards,
// one of IPv6 if another of its devices has IPv6: IPv6 is on for the moment. The same holds for a
// device that somebody sets down.
func (p *planner) addRoute(m Message) {
	c := routes()
	var off []Request
	for _, l := range p.stoppedUnder(m) {
		p.link(l, "set up "+l.name+" for a route", func(b *builder) { b.flags(unix.IFF_UP, unix.IFF_UP) })
		down := about(l.index)
		down.flags(0, unix.IFF_UP)
		off = append(off, Request{What: "set down " + l.name, Kind: unix.RTM_NEWLINK, Body: down.body})
	}
	for _, path := range p.turnedOff(m) {
		p.request(Request{What: "set " + path + " for a route", Path: path, Value: "0"})
		off = append(off, Request{What: "set " + path, Path: path, Value: "1"})
	}
	p.request(Request{What: "add the route " + destination(m).String(), Kind: c.add, Flags: c.create, Body: p.addable(m)})
	for _, r := range off {
		p.request(r)
	}
}

// stoppedUnder are the devices that were down under a route with several next hops.
func (p *planner) stoppedUnder(m Message) (list []link) {
	attributes := routes().attributes(m)
	if attributes.Get(routeNextHop) != nil {
		return nil // The kernel has removed their next hop objects.
	}
	for hop := range hopsOf(attributes.Get(unix.RTA_MULTIPATH)) {
		l, ok := p.before[binary.NativeEndian.Uint32(hop[4:])]
		same := func(other link) bool { return other.index == l.index }
		if ok && l.flags&unix.IFF_UP == 0 && !slices.ContainsFunc(list, same) {
			list = append(list, l)
		}
	}
	return list
}

// turnedOff are the settings that turn IPv6 off for the devices of a route that need it.
func (p *planner) turnedOff(m Message) (paths []string) {
	find := func(index uint32, hop attribute.List) {
		if path := p.withoutIPv6[p.before[index].name]; path != "" && (m[0] == unix.AF_INET6 || gatewayOf(hop).Is6()) && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	attributes := routes().attributes(m)
	if index, ok := attributes.Number(unix.RTA_OIF); ok {
		find(index, attributes)
	}
	for hop := range hopsOf(attributes.Get(unix.RTA_MULTIPATH)) {
		find(binary.NativeEndian.Uint32(hop[4:unix.SizeofRtNexthop]), attribute.List(hop[unix.SizeofRtNexthop:]))
	}
	return paths
}

// removeRoutes removes the routes that the change added, and what it left of others. It notes which
// there are, and returns those that others have written in the slots of the area.
func (p *planner) removeRoutes(before, present, now []Message, have map[string]bool, settled bool) (others []Message) {
	c := routes()
	had, ours, ways := canonical(c, before), canonical(c, present), waysOf(filtered(before, p.isOwn))
	for _, m := range now { // What is left of a route may be on another device.
		key := c.canonical(m)
		have[key] = true
		switch {
		case had[key]:
		case ways.hasPart(m) || ours[key] && (p.isAdded(m) || settled && p.isLeft(m)):
			p.request(Request{What: "remove the route " + destination(m).String(), Kind: c.remove, Body: p.addable(m)})
		case ours[key] && p.leave(m, ways), ways[slotOf(m)] != nil && !isKernels(m):
			others = append(others, m) // One that the change leaves is another one at the next look.
		}
	}
	return others
}

// isOwn reports whether a route of before is of the area, and not of a slot alone.
func (p *planner) isOwn(m Message) bool { return p.own[routes().canonical(m)] }

// isAdded reports whether the change added a route. Others may add one to the same destination by
// another gateway.
func (p *planner) isAdded(m Message) bool {
	if m[5] != unix.RTPROT_STATIC {
		return false
	}
	for hop := range hopsOf(routes().attributes(m).Get(unix.RTA_MULTIPATH)) {
		if p.adds(m, attribute.List(hop[unix.SizeofRtNexthop:])) {
			return true
		}
	}
	return p.adds(m, routes().attributes(m))
}

// adds reports whether the change adds a route to the destination of another one, by the gateway of
// a next hop.
func (p *planner) adds(m Message, hop attribute.List) bool {
	to, gateway := destination(m), gatewayOf(hop)
	return slices.ContainsFunc(p.area.Added, func(a Addition) bool {
		return a.Destination == to && (a.Gateway == nil || *a.Gateway == gateway)
	})
}

// gatewayOf returns the gateway of a next hop, the zero Addr without one.
func gatewayOf(hop attribute.List) netip.Addr {
	const family = 2 // of struct rtvia
	if via := hop.Get(routeVia); len(via) > family {
		gateway, _ := netip.AddrFromSlice(via[family:])
		return gateway
	}
	return hop.Address(unix.RTA_GATEWAY)
}

// leave removes the next hops that the change has added to a route of IPv6 of others: the kernel
// makes one route of all with a destination and a metric, and shows the protocol of the first. It
// reports whether there are any.
func (p *planner) leave(m Message, was ways) (left bool) {
	if m[0] != unix.AF_INET6 || m[5] == unix.RTPROT_STATIC {
		return false
	}
	for hop := range hopsOf(routes().attributes(m).Get(unix.RTA_MULTIPATH)) {
		if rest := attribute.List(hop[unix.SizeofRtNexthop:]); !was.hasHop(m, hop) && p.adds(m, rest) {
			p.request(Request{What: "leave the route " + destination(m).String(), Kind: routes().remove, Body: ownHop(m, hop)})
			left = true
		}
	}
	return left
}

// ownHop returns a route of the change with one of the next hops of another one.
func ownHop(m Message, hop []byte) Message {
	out := loneHop(m, hop)
	out[5] = unix.RTPROT_STATIC
	return out
}

// withHops returns a route with some of its next hops, nil without any.
func withHops(m Message, hops [][]byte) Message {
	switch len(hops) {
	case 0:
		return nil
	case 1:
		return loneHop(m, hops[0])
	}
	c := routes()
	out := append(slices.Clone(m[:c.header]), ordered(c.attributes(m), []uint16{unix.RTA_MULTIPATH})...)
	return appendAttribute(out, unix.RTA_MULTIPATH, slices.Concat(hops...))
}

// loneHop returns a route with one of its next hops.
func loneHop(m Message, hop []byte) Message {
	const flags, flagsOfHop = 8, 2
	c := routes()
	out := slices.Clone(m[:c.header])
	binary.NativeEndian.PutUint32(out[flags:], uint32(hop[flagsOfHop]&settingsOfHop))
	out = append(out, ordered(c.attributes(m), []uint16{unix.RTA_MULTIPATH, unix.RTA_CACHEINFO})...)
	out = appendAttribute(out, unix.RTA_OIF, hop[4:unix.SizeofRtNexthop])
	return append(out, hop[unix.SizeofRtNexthop:]...)
}

// slot is the place of routes of IPv4 of which the first one counts.
type slot struct {
	Destination
	tos      byte
	priority uint32
}

// canExist reports whether the devices of a route, and its source address, have not gone.
func (p *planner) canExist(m Message) bool {
	source := routes().attributes(m).Get(unix.RTA_PREFSRC)
	return (source == nil || p.sources[string(source)]) &&
		!slices.ContainsFunc(outsOf(m), func(out uint32) bool { return !p.has(out) })
}

func slotOf(m Message) slot {
	return slot{destination(m), m[3], routes().attributes(m).Value(unix.RTA_PRIORITY)}
}

// inOrder returns the missing routes, those without gateway first. The kernel appends a route
// to its slot: so the routes of a slot that came after a missing one, or are in another order
// now, are removed, and added again. Those of the kernel are, once all else is as it was.
func (p *planner) inOrder(before, now []Message, missing func(Message) bool, settled bool) []Message {
	c, slots, ranks := routes(), map[slot][]Message{}, map[slot]int{}
	places, last := placesOf(now), map[slot]int{}
	var order []slot
	for _, m := range before {
		s := slotOf(m)
		again := missing(m)
		place, is := places[c.canonical(m)]
		movable := is && hasOrder(m) && (settled || !isKernels(m))
		if !again && movable && (len(slots[s]) > 0 || place < last[s]) {
			p.request(Request{What: "remove the route " + s.String(), Kind: c.remove, Body: p.addable(m)})
			again = true
		}
		last[s] = max(last[s], place)
		if again {
			if len(slots[s]) == 0 {
				order = append(order, s)
			}
			slots[s], ranks[s] = append(slots[s], m), max(ranks[s], rank(m))
		}
	}
	slices.SortStableFunc(order, func(a, b slot) int { return cmp.Compare(ranks[a], ranks[b]) })
	var list []Message
	for _, s := range order {
		list = append(list, slots[s]...)
	}
	return list
}

// hasOrder reports whether the order of a route among those of its slot counts.
func hasOrder(m Message) bool { return m[0] == unix.AF_INET && isWritten(m) }

// withOthersOfSlots returns some of all routes, with those of their slots: a route that is added
// again comes after them, and nobody has written them since.
func withOthersOfSlots(all, some []Message) []Message {
	is, in := map[string]bool{}, map[slot]bool{}
	for _, m := range some {
		is[string(m)] = true
		if isWritten(m) {
			in[slotOf(m)] = true
		}
	}
	return filtered(all, func(m Message) bool { return is[string(m)] || isWritten(m) && in[slotOf(m)] })
}

// isWritten reports whether a route has a type that programs write. The kernel makes those to
// its own addresses, and to groups, by itself.
func isWritten(m Message) bool {
	switch m[7] {
	case unix.RTN_UNICAST, unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_THROW:
		return true
	default:
		return false
	}
}

// placesOf returns where routes are in a dump.
func placesOf(list []Message) map[string]int {
	places := make(map[string]int, len(list))
	for n, m := range list {
		places[routes().canonical(m)] = n
	}
	return places
}

// isKernels reports whether the kernel makes a route by itself with an address. Somebody else
// can write the same protocol: such a route is added if it does not come by itself.
func isKernels(m Message) bool { return m[5] == unix.RTPROT_KERNEL }

// isLeft reports whether a route may be one to the network of an address that is gone: the
// kernel keeps the route if the device has another address in the network. It is needed if that is
// one of others.
func (p *planner) isLeft(m Message) bool {
	to, out := destination(m).Prefix, routes().attributes(m).Value(unix.RTA_OIF)
	return isKernels(m) && m[7] == unix.RTN_UNICAST && to.Addr().Is6() && !to.Addr().IsLinkLocalUnicast() && !to.Addr().IsMulticast() &&
		!p.others[network{out, to}]
}

// rank orders routes so that the networks of gateways come before the routes through them.
func rank(m Message) int {
	attributes := routes().attributes(m)
	if attributes.Get(unix.RTA_GATEWAY) == nil && attributes.Get(routeVia) == nil && attributes.Get(unix.RTA_MULTIPATH) == nil && attributes.Get(routeNextHop) == nil {
		return 0
	}
	return 1
}

// Attributes of routes that the library lacks (include/uapi/linux/rtnetlink.h).
const (
	routeVia     = 18 // RTA_VIA
	routeExpires = 23 // RTA_EXPIRES
	routeNextHop = 30 // RTA_NH_ID
	// nextHopOptions is NHA_OP_FLAGS, which requests for dumps have.
	nextHopOptions = 14
)

// addable returns a route as a request has it: a next hop object has the gateways itself,
// and a lifetime has an attribute of its own.
func (p *planner) addable(m Message) Message {
	c := routes()
	m = slices.Clone(m)
	c.settle(m)
	out := append(slices.Clone(m[:c.header]), c.lasting(m)...)
	if left, limited := p.leftOf(m); limited {
		out = appendAttribute(out, routeExpires, binary.NativeEndian.AppendUint32(nil, uint32(left)))
	}
	return out
}

// leftOf returns the seconds that are left of the lifetime of a route, and false if the route
// has none.
func (p *planner) leftOf(m Message) (seconds int, limited bool) {
	field := ticksOf(m)
	if m[0] != unix.AF_INET6 || field == nil {
		return 0, false
	}
	left := int(int32(binary.NativeEndian.Uint32(field)))
	return left/ticks - int(inSeconds(p.age)), left != 0
}

// ticks are those of users in a second (USER_HZ).
const ticks = 100

// ticksOf returns the lifetime in a route (struct rta_cacheinfo), nil without one.
func ticksOf(m Message) []byte {
	const expires = 8
	info := routes().attributes(m).Get(unix.RTA_CACHEINFO)
	if len(info) < expires+4 {
		return nil
	}
	return info[expires : expires+4]
}

// remains reports whether the lifetime of a route is not over since.
func (p *planner) remains(m Message) bool {
	left, limited := p.leftOf(m)
	return !limited || left > 0
}

func (d Destination) String() string { return fmt.Sprintf("%s of table %d", d.Prefix, d.Table) }

func destination(m Message) Destination {
	attributes := routes().attributes(m)
	ip := attributes.Address(unix.RTA_DST)
	if !ip.IsValid() {
		ip = netip.IPv6Unspecified()
		if m[0] == unix.AF_INET {
			ip = netip.IPv4Unspecified()
		}
	}
	return Destination{netip.PrefixFrom(ip, int(m[1])), attributes.Value(unix.RTA_TABLE)}
}

// author is a slot of routes, and the protocol of the program that writes them.
type author struct {
	slot
	protocol byte
}

func authorOf(m Message) author { return author{slotOf(m), m[5]} }

// rewrittenBy reports in the place of which routes of before others have written new ones since. To
// add such a route again would undo that, and the kernel refuses it if both have the same next hops
// of IPv6. A routing daemon or a DHCP client has one route for a destination: whatever it writes
// there is in the place of the old one. An administrator may have several, so only one that goes
// the same way is.
func rewrittenBy(others []Message) func(Message) bool {
	programs, same := map[author]bool{}, map[course]bool{}
	for _, m := range others {
		if isProgram(m[5]) {
			programs[authorOf(m)] = true
		} else {
			same[courseOf(m)] = true
		}
	}
	return func(m Message) bool { return programs[authorOf(m)] || same[courseOf(m)] }
}

// course tells the routes of one author and slot that go the same way from others.
type course struct {
	author
	kind byte
	hops string
}

func courseOf(m Message) course { return course{authorOf(m), m[7], strings.Join(hopsTo(m), " ")} }

// isProgram reports whether routes of a protocol come from a program that goes on meanwhile.
func isProgram(protocol byte) bool {
	return protocol != unix.RTPROT_KERNEL && protocol != unix.RTPROT_BOOT && protocol != unix.RTPROT_STATIC
}

// hopsTo returns the next hops of a route: the device and the gateway of each.
func hopsTo(m Message) (list []string) {
	attributes := routes().attributes(m)
	if id := attributes.Get(routeNextHop); id != nil {
		return []string{"object " + string(id)}
	}
	for hop := range hopsOf(attributes.Get(unix.RTA_MULTIPATH)) {
		list = append(list, hopText(hop))
	}
	if list != nil {
		return list
	}
	return []string{string(attributes.Get(unix.RTA_OIF)) + string(attributes.Get(unix.RTA_GATEWAY)) + string(attributes.Get(routeVia))}
}

// hopText tells a next hop of a route with several from others, by device and gateway.
func hopText(hop []byte) string {
	const out = 4
	via := attribute.List(hop[unix.SizeofRtNexthop:])
	return string(hop[out:unix.SizeofRtNexthop]) + string(via.Get(unix.RTA_GATEWAY)) + string(via.Get(routeVia))
}

// ways has the protocols and next hops of routes by their slots.
type ways map[slot][]way

type way struct {
	protocol byte
	hops     []string
	sourced  bool
	message  Message
	// again: the route has a type of service, which it lacks if the change has added it again.
	again bool
}

func waysOf(list []Message) ways {
	all := make(ways, len(list))
	for _, m := range list {
		at := slotOf(m)
		all[at] = append(all[at], way{m[5], hopsTo(m), isSourced(m), m, false})
		if at.tos != 0 {
			at.tos = 0
			all[at] = append(all[at], way{m[5], hopsTo(m), isSourced(m), m, true})
		}
	}
	return all
}

// hasHop reports whether one of these has a next hop of a route.
func (w ways) hasHop(m Message, hop []byte) bool {
	return slices.ContainsFunc(w[slotOf(m)], func(was way) bool { return slices.Contains(was.hops, hopText(hop)) })
}

// hasPart reports whether a route is left of one of these, which the change has lost: the route
// that it added again, with the protocol of its own routes, the next hops of IPv6 whose devices
// stayed, the route of IPv6 whose source address went, or the one whose MTU the kernel lowered
// with that of the device.
func (w ways) hasPart(m Message) bool {
	list := w[slotOf(m)]
	if list == nil {
		return false
	}
	hops := hopsTo(m)
	return slices.ContainsFunc(list, func(was way) bool {
		if slices.ContainsFunc(hops, func(hop string) bool { return !slices.Contains(was.hops, hop) }) {
			return false
		}
		return m[5] == unix.RTPROT_STATIC || !was.again && m[5] == was.protocol &&
			(len(hops) < len(was.hops) || was.sourced && !isSourced(m) || m[0] == unix.AF_INET6 && withoutMTU(m) == withoutMTU(was.message))
	})
}

func isSourced(m Message) bool { return routes().attributes(m).Get(unix.RTA_PREFSRC) != nil }

// withoutMTU tells routes from others by all but the MTU.
func withoutMTU(m Message) string {
	m = slices.Clone(m)
	c := routes()
	c.settle(m)
	attributes := c.attributes(m)
	list := ordered(attributes, append(c.volatile(attributes), unix.RTA_METRICS))
	return string(m[:c.header]) + string(list) + string(ordered(attributes.Get(unix.RTA_METRICS), []uint16{unix.RTAX_MTU}))
}
