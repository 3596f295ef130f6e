// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/attribute"
)

// author is a slot of routes, and the protocol of the program that writes them.
type author struct {
	slot
	protocol byte
}

func authorOf(m Message) author { return author{slotOf(m), m[5]} }

// replaced returns the slots in which a routing daemon or a DHCP client has written a route
// with another next hop since: to add the route of before again would undo that.
func replaced(before, now []Message) map[author]bool {
	hops := map[author][]string{}
	for _, m := range before {
		if at := authorOf(m); isProgram(at.protocol) {
			hops[at] = append(hops[at], hopsTo(m)...)
		}
	}
	all := map[author]bool{}
	for _, m := range now {
		at := authorOf(m)
		if was, ok := hops[at]; ok && slices.ContainsFunc(hopsTo(m), func(hop string) bool { return !slices.Contains(was, hop) }) {
			all[at] = true
		}
	}
	return all
}

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
		const out = 4
		via := attribute.List(hop[unix.SizeofRtNexthop:])
		list = append(list, string(hop[out:unix.SizeofRtNexthop])+string(via.Get(unix.RTA_GATEWAY))+string(via.Get(routeVia)))
	}
	if list != nil {
		return list
	}
	return []string{string(attributes.Get(unix.RTA_OIF)) + string(attributes.Get(unix.RTA_GATEWAY)) + string(attributes.Get(routeVia))}
}

// ways has the protocols and next hops of routes by their slots.
type ways map[slot][]way

type way struct {
	protocol byte
	hops     []string
	sourced  bool
}

func waysOf(list []Message) ways {
	all := make(ways, len(list))
	for _, m := range list {
		at := slotOf(m)
		all[at] = append(all[at], way{m[5], hopsTo(m), isSourced(m)})
	}
	return all
}

// hasPart reports whether a route is left of one of these, which the change has lost: the route
// that it added again, with the protocol of its own routes, the next hops of IPv6 whose devices
// stayed, or the route of IPv6 whose source address went.
func (w ways) hasPart(m Message) bool {
	hops := hopsTo(m)
	return slices.ContainsFunc(w[slotOf(m)], func(was way) bool {
		if slices.ContainsFunc(hops, func(hop string) bool { return !slices.Contains(was.hops, hop) }) {
			return false
		}
		return m[5] == unix.RTPROT_STATIC || m[5] == was.protocol && (len(hops) < len(was.hops) || was.sourced && !isSourced(m))
	})
}

func isSourced(m Message) bool { return routes().attributes(m).Get(unix.RTA_PREFSRC) != nil }

// ProgramRoutes returns the routes of programs, by a device and not by a next hop object: the
// kernel removes these when it hears that a device has no carrier.
func (i *Image) ProgramRoutes() []Message {
	return filtered(i.Routes, func(m Message) bool {
		return isProgram(m[5]) && routes().attributes(m).Get(routeNextHop) == nil
	})
}

// NoteSurvivors keeps which routes of programs a later image still has.
func (i *Image) NoteSurvivors(later *Image) {
	have := canonical(routes(), later.Routes)
	i.Survivors = filtered(i.ProgramRoutes(), func(m Message) bool { return have[routes().canonical(m)] })
}

// WithoutWithdrawn returns an image without the routes that have survived the change and are
// missing now: the program that wrote one has withdrawn it since.
func (i *Image) WithoutWithdrawn(now *Image) *Image {
	survived, have, part := canonical(routes(), i.Survivors), canonical(routes(), now.Routes), *i
	part.Survivors = nil
	part.Routes = filtered(i.Routes, func(m Message) bool {
		key := routes().canonical(m)
		return !survived[key] || have[key]
	})
	return &part
}
