// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// restoreRoutes adds the routes that are missing, and removes those that the change added.
// Administrators and routing daemons go on meanwhile, so their routes stay.
func (p *planner) restoreRoutes(before, present, now []Message) {
	c, settled := object.Routes(), len(p.requests) == 0
	have := make(map[string]bool, len(now))
	others := p.removeRoutes(before, present, now, have, settled)
	rewritten := object.RewrittenBy(others)
	missing := func(m Message) bool {
		key := c.Canonical(m)
		return p.own[key] && !have[key] && !p.replaced[key] && !rewritten(m) && p.remains(m) &&
			(!object.IsKernels(m) || settled && m[7] == unix.RTN_UNICAST)
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
	c := object.Routes()
	var off []Request
	for _, l := range p.stoppedUnder(m) {
		p.link(l, "set up "+l.Name+" for a route", func(b *object.Builder) { b.Flags(unix.IFF_UP, unix.IFF_UP) })
		down := object.About(l.Index)
		down.Flags(0, unix.IFF_UP)
		off = append(off, Request{What: "set down " + l.Name, Kind: unix.RTM_NEWLINK, Body: down.Body})
	}
	for _, path := range p.turnedOff(m) {
		p.request(Request{What: "set " + path + " for a route", Path: path, Value: "0"})
		off = append(off, Request{What: "set " + path, Path: path, Value: "1"})
	}
	p.request(
		Request{What: "add the route " + object.DestinationOf(m).String(), Kind: c.Add, Flags: c.Create, Body: p.addable(m)},
	)
	for _, r := range off {
		p.request(r)
	}
}

// stoppedUnder are the devices that were down under a route with several next hops.
func (p *planner) stoppedUnder(m Message) (list []object.Link) {
	attributes := object.Routes().Attributes(m)
	if attributes.Get(object.RouteNextHop) != nil {
		return nil // The kernel has removed their next hop objects.
	}
	for hop := range object.HopsOf(attributes.Get(unix.RTA_MULTIPATH)) {
		l, ok := p.carrier(binary.NativeEndian.Uint32(hop[4:]))
		same := func(other object.Link) bool { return other.Index == l.Index }
		if ok && l.Flags&unix.IFF_UP == 0 && !slices.ContainsFunc(list, same) {
			list = append(list, l)
		}
	}
	return list
}

// turnedOff are the settings that turn IPv6 off for the devices of a route that need it.
func (p *planner) turnedOff(m Message) (paths []string) {
	find := func(index uint32, hop attribute.List) {
		l, _ := p.carrier(index)
		if path := p.withoutIPv6[l.Name]; path != "" && (m[0] == unix.AF_INET6 || object.GatewayOf(hop).Is6()) &&
			!slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	attributes := object.Routes().Attributes(m)
	if index, ok := attributes.Number(unix.RTA_OIF); ok {
		find(index, attributes)
	}
	for hop := range object.HopsOf(attributes.Get(unix.RTA_MULTIPATH)) {
		find(binary.NativeEndian.Uint32(hop[4:unix.SizeofRtNexthop]), attribute.List(hop[unix.SizeofRtNexthop:]))
	}
	return paths
}

// removeRoutes removes the routes that the change added, and what it left of others. It notes which
// there are, and returns those that others have written in the slots of the area.
func (p *planner) removeRoutes(before, present, now []Message, have map[string]bool, settled bool) (others []Message) {
	c := object.Routes()
	had, ours, ways := canonical(c, before), canonical(c, present), object.WaysOf(filtered(before, p.isOwn))
	for _, m := range now { // What is left of a route may be on another device.
		key := c.Canonical(m)
		have[key] = true
		switch {
		case had[key]:
		case ways.HasPart(m) || ours[key] && (p.isAdded(m) || settled && p.isLeft(m)):
			p.request(Request{What: "remove the route " + object.DestinationOf(m).String(), Kind: c.Remove, Body: p.addable(m)})
		case ours[key] && p.leave(m, ways), ways[object.SlotOf(m)] != nil && !object.IsKernels(m):
			others = append(others, m) // The rest of a route has other contents at the next comparison.
		}
	}
	return others
}

// isOwn reports whether a route of before is of the area, and not of a slot alone.
func (p *planner) isOwn(m Message) bool { return p.own[object.Routes().Canonical(m)] }

// isAdded reports whether the change added a route. Others may add one to the same destination by
// another gateway.
func (p *planner) isAdded(m Message) bool {
	if m[5] != unix.RTPROT_STATIC {
		return false
	}
	for hop := range object.HopsOf(object.Routes().Attributes(m).Get(unix.RTA_MULTIPATH)) {
		if p.adds(m, attribute.List(hop[unix.SizeofRtNexthop:])) {
			return true
		}
	}
	return p.adds(m, object.Routes().Attributes(m))
}

// adds reports whether the change adds a route to the destination of another one, by the gateway of
// a next hop.
func (p *planner) adds(m Message, hop attribute.List) bool {
	to, gateway := object.DestinationOf(m), object.GatewayOf(hop)
	return slices.ContainsFunc(p.area.Added, func(a Addition) bool {
		return a.Destination == to && (a.Gateway == nil || *a.Gateway == gateway)
	})
}

// leave removes the next hops that the change has added to a route of IPv6 of others: the kernel
// makes one route of all with a destination and a metric, and shows the protocol of the first. It
// reports whether there are any.
func (p *planner) leave(m Message, was object.Ways) (left bool) {
	if m[0] != unix.AF_INET6 || m[5] == unix.RTPROT_STATIC {
		return false
	}
	for hop := range object.HopsOf(object.Routes().Attributes(m).Get(unix.RTA_MULTIPATH)) {
		if rest := attribute.List(hop[unix.SizeofRtNexthop:]); !was.HasHop(m, hop) && p.adds(m, rest) {
			p.request(
				Request{
					What: "leave the route " + object.DestinationOf(m).String(),
					Kind: object.Routes().Remove,
					Body: object.OwnHop(m, hop),
				},
			)
			left = true
		}
	}
	return left
}

// canExist reports whether the devices of a route, and its source address, have not gone.
func (p *planner) canExist(m Message) bool {
	source := object.Routes().Attributes(m).Get(unix.RTA_PREFSRC)
	return (source == nil || p.sources[string(source)]) &&
		!slices.ContainsFunc(object.OutsOf(m), func(out uint32) bool { return !p.has(out) })
}

// inOrder returns the missing routes, routes without gateway first. The kernel appends a route to
// its slot. So inOrder removes the routes of a slot that came after a missing one, or are in
// another order now, and adds them again. Routes of the kernel come last.
func (p *planner) inOrder(before, now []Message, missing func(Message) bool, settled bool) []Message {
	c, slots, ranks := object.Routes(), map[object.Slot][]Message{}, map[object.Slot]int{}
	places, last := placesOf(now), map[object.Slot]int{}
	var order []object.Slot
	for _, m := range before {
		s := object.SlotOf(m)
		again := missing(m)
		place, is := places[c.Canonical(m)]
		movable := is && object.HasOrder(m) && (settled || !object.IsKernels(m))
		if !again && movable && (len(slots[s]) > 0 || place < last[s]) {
			p.request(Request{What: "remove the route " + s.String(), Kind: c.Remove, Body: p.addable(m)})
			again = true
		}
		last[s] = max(last[s], place)
		if again {
			if len(slots[s]) == 0 {
				order = append(order, s)
			}
			slots[s], ranks[s] = append(slots[s], m), max(ranks[s], object.Rank(m))
		}
	}
	slices.SortStableFunc(order, func(a, b object.Slot) int { return cmp.Compare(ranks[a], ranks[b]) })
	var list []Message
	for _, s := range order {
		list = append(list, slots[s]...)
	}
	return list
}

// withOthersOfSlots returns some of all routes, with the other routes of their slots. A route
// that is added again comes after them, and no program has written them since.
func withOthersOfSlots(all, some []Message) []Message {
	is, in := map[string]bool{}, map[object.Slot]bool{}
	for _, m := range some {
		is[string(m)] = true
		if object.IsWritten(m) {
			in[object.SlotOf(m)] = true
		}
	}
	return filtered(all, func(m Message) bool { return is[string(m)] || object.IsWritten(m) && in[object.SlotOf(m)] })
}

// placesOf returns where routes are in a dump.
func placesOf(list []Message) map[string]int {
	places := make(map[string]int, len(list))
	for n, m := range list {
		places[object.Routes().Canonical(m)] = n
	}
	return places
}

// isLeft reports whether a route may be one to the network of an address that is gone: the
// kernel keeps the route if the device has another address in the network. It is needed if that is
// one of others.
func (p *planner) isLeft(m Message) bool {
	to, out := object.DestinationOf(m).Prefix, object.Routes().Attributes(m).Value(unix.RTA_OIF)
	return object.IsKernels(m) && m[7] == unix.RTN_UNICAST && to.Addr().Is6() && !to.Addr().IsLinkLocalUnicast() &&
		!to.Addr().IsMulticast() &&
		!p.others[network{out, to}]
}

// addable returns a route as a request has it: a next hop object has the gateways itself,
// and a lifetime has an attribute of its own.
func (p *planner) addable(m Message) Message {
	c := object.Routes()
	m = slices.Clone(m)
	c.Settle(m)
	out := append(slices.Clone(m[:c.Header]), c.Lasting(m)...)
	if left, limited := p.leftOf(m); limited {
		out = object.AppendAttribute(out, object.RouteExpires, binary.NativeEndian.AppendUint32(nil, uint32(left)))
	}
	return out
}

// leftOf returns the seconds that are left of the lifetime of a route, and false if the route
// has none.
func (p *planner) leftOf(m Message) (seconds int, limited bool) {
	field := object.TicksOf(m)
	if m[0] != unix.AF_INET6 || field == nil {
		return 0, false
	}
	left := int(int32(binary.NativeEndian.Uint32(field)))
	return left/object.Ticks - int(object.InSeconds(p.age)), left != 0
}

// remains reports whether the lifetime of a route is not over since.
func (p *planner) remains(m Message) bool {
	left, limited := p.leftOf(m)
	return !limited || left > 0
}
