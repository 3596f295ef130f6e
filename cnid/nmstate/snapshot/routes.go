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
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/attribute"
)

// restoreRoutes adds the routes that are missing, and removes those that the change added.
// Administrators and routing daemons go on meanwhile, so their routes stay.
func (p *planner) restoreRoutes(before, present, now []Message) {
	c, settled := routes(), len(p.requests) == 0
	have := make(map[string]bool, len(now))
	others := p.removeRoutes(before, present, now, have, settled)
	rewritten := rewrittenBy(others)
	missing := func(m Message) bool {
		return p.isOwn(m) && !rewritten(m) && !have[c.canonical(m)] && p.remains(m) && (!isKernels(m) || settled && m[7] == unix.RTN_UNICAST)
	}
	for _, m := range p.inOrder(before, now, missing, settled) {
		if !p.canExist(m) {
			continue
		}
		p.withIPv6(m, Request{What: "add the route " + destination(m).String(), Kind: c.add, Flags: c.create, Body: p.addable(m)})
	}
}

// withIPv6 requests to add a route. The kernel takes a route of IPv4 by a gateway of IPv6 on
// devices with IPv6 alone, and keeps the route when somebody turns IPv6 off afterwards: IPv6 is on
// for the moment.
func (p *planner) withIPv6(m Message, add Request) {
	var off []Request
	if m[0] == unix.AF_INET {
		for _, path := range p.turnedOff(m) {
			p.request(Request{What: "set " + path + " for a route", Path: path, Value: "0"})
			off = append(off, Request{What: "set " + path, Path: path, Value: "1"})
		}
	}
	p.request(add)
	p.requests = append(p.requests, off...)
}

// turnedOff are the settings that turn IPv6 off for the devices of a route's gateways of IPv6.
func (p *planner) turnedOff(m Message) (paths []string) {
	find := func(index uint32, hop attribute.List) {
		if path := p.withoutIPv6[p.before[index].name]; path != "" && gatewayOf(hop).Is6() && !slices.Contains(paths, path) {
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
	list := was[slotOf(m)]
	for hop := range hopsOf(routes().attributes(m).Get(unix.RTA_MULTIPATH)) {
		had := slices.ContainsFunc(list, func(w way) bool { return slices.Contains(w.hops, hopText(hop)) })
		if rest := attribute.List(hop[unix.SizeofRtNexthop:]); !had && p.adds(m, rest) {
			p.request(Request{What: "leave the route " + destination(m).String(), Kind: routes().remove, Body: ownHop(m, hop)})
			left = true
		}
	}
	return left
}

// ownHop returns a route of the change with one of the next hops of another one.
func ownHop(m Message, hop []byte) Message {
	c := routes()
	out := slices.Clone(m[:c.header])
	out[5] = unix.RTPROT_STATIC
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
	const expires, ticks = 8, 100 // in struct rta_cacheinfo, in ticks of users (USER_HZ)
	info := routes().attributes(m).Get(unix.RTA_CACHEINFO)
	if m[0] != unix.AF_INET6 || len(info) < expires+4 {
		return 0, false
	}
	left := int(int32(binary.NativeEndian.Uint32(info[expires:])))
	return left/ticks - int(max(p.age, 0)/time.Second), left != 0
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

// restoreNextHops adds the next hop objects that are missing, groups last. The kernel takes a
// member that is gone out of its groups. A number that has another object now belongs to the
// routing daemon that has replaced the object.
func (p *planner) restoreNextHops(before, now []Message) {
	c, have := nextHops(), canonical(nextHops(), now)
	byNumber := map[uint32]attribute.List{}
	for _, m := range now {
		byNumber[c.attributes(m).Value(nextHopID)] = c.attributes(m)
	}
	lost := filtered(before, func(m Message) bool {
		attributes := c.attributes(m)
		out, is := attributes.Value(nextHopOut), byNumber[attributes.Value(nextHopID)]
		return !have[c.canonical(m)] && (out == 0 || p.has(out)) && (is == nil || isPart(is, attributes))
	})
	slices.SortStableFunc(lost, func(a, b Message) int {
		return cmp.Compare(len(c.attributes(a).Get(nextHopSet)), len(c.attributes(b).Get(nextHopSet)))
	})
	for _, m := range lost {
		what := fmt.Sprintf("add the next hop %d", c.attributes(m).Value(nextHopID))
		p.request(Request{What: what, Kind: c.add, Flags: c.create, Body: hopToAdd(m)})
	}
}

// isPart reports whether a group has no members but those of another one.
func isPart(group, of attribute.List) bool {
	members, all := membersOf(group.Get(nextHopSet)), membersOf(of.Get(nextHopSet))
	return len(members) > 0 && len(members) < len(all) &&
		!slices.ContainsFunc(members, func(id uint32) bool { return !slices.Contains(all, id) })
}

// hopToAdd returns a next hop object as a request has it: the kernel computes the scope, and
// the time since when a group is not balanced.
func hopToAdd(m Message) Message {
	c := nextHops()
	out := slices.Clone(m[:c.header])
	c.settle(out)
	out[1] = 0
	attributes := c.attributes(m)
	out = append(out, ordered(attributes, append(c.volatile(attributes), nextHopBuckets))...)
	if buckets := attributes.Get(nextHopBuckets); buckets != nil {
		out = appendAttribute(out, nextHopBuckets|unix.NLA_F_NESTED, ordered(buckets, []uint16{unbalanced, pad}))
	}
	return out
}

// pad is NHA_RES_GROUP_PAD.
const pad = 0

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
}

func waysOf(list []Message) ways {
	all := make(ways, len(list))
	for _, m := range list {
		at := slotOf(m)
		all[at] = append(all[at], way{m[5], hopsTo(m), isSourced(m), m})
	}
	return all
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
		return m[5] == unix.RTPROT_STATIC || m[5] == was.protocol &&
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
