// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// author is a slot of routes, and the protocol of the program that writes them.
type author struct {
	Slot
	protocol byte
}

func authorOf(m Message) author { return author{SlotOf(m), m[5]} }

// RewrittenBy returns a function that reports whether others have replaced a former route since.
// To add such a route again would undo their change, and the kernel refuses it if both have the
// same next hops of IPv6. A routing daemon or a DHCP client has one route for a destination: each
// route that it writes there replaces the old one. An administrator may have several, so only a
// route with the same way counts as a replacement.
func RewrittenBy(others []Message) func(Message) bool {
	programs, same := map[author]bool{}, map[course]bool{}
	for _, m := range others {
		if IsProgram(m[5]) {
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

// hopsTo returns the next hops of a route: the device and the gateway of each.
func hopsTo(m Message) (list []string) {
	attributes := Routes().Attributes(m)
	if id := attributes.Get(RouteNextHop); id != nil {
		return []string{"object " + string(id)}
	}
	for hop := range HopsOf(attributes.Get(unix.RTA_MULTIPATH)) {
		list = append(list, hopText(hop))
	}
	if list != nil {
		return list
	}
	return []string{
		string(attributes.Get(unix.RTA_OIF)) + string(attributes.Get(unix.RTA_GATEWAY)) + string(attributes.Get(routeVia)),
	}
}

// hopText tells a next hop of a route with several from others, by device and gateway.
func hopText(hop []byte) string {
	const out = 4
	via := attribute.List(hop[unix.SizeofRtNexthop:])
	return string(hop[out:unix.SizeofRtNexthop]) + string(via.Get(unix.RTA_GATEWAY)) + string(via.Get(routeVia))
}

// Ways has the protocols and next hops of routes by their slots.
type Ways map[Slot][]way

type way struct {
	protocol byte
	hops     []string
	sourced  bool
	message  Message
	// again: the route has a type of service, which it lacks if the change has added it again.
	again bool
}

// WaysOf returns the ways of routes.
func WaysOf(list []Message) Ways {
	all := make(Ways, len(list))
	for _, m := range list {
		at := SlotOf(m)
		all[at] = append(all[at], way{m[5], hopsTo(m), isSourced(m), m, false})
		if at.tos != 0 {
			at.tos = 0
			all[at] = append(all[at], way{m[5], hopsTo(m), isSourced(m), m, true})
		}
	}
	return all
}

// HasHop reports whether one of these has a next hop of a route.
func (w Ways) HasHop(m Message, hop []byte) bool {
	return slices.ContainsFunc(w[SlotOf(m)], func(was way) bool { return slices.Contains(was.hops, hopText(hop)) })
}

// HasPart reports whether a route is a remainder of one of the routes that the change has lost.
// It may be the route that the change added again, with the protocol of its own routes. It may
// have the next hops of IPv6 whose devices stayed. It may be the route of IPv6 whose source
// address went. Or it may be the route whose MTU the kernel lowered with the MTU of the device.
func (w Ways) HasPart(m Message) bool {
	list := w[SlotOf(m)]
	if list == nil {
		return false
	}
	hops := hopsTo(m)
	return slices.ContainsFunc(list, func(was way) bool {
		if slices.ContainsFunc(hops, func(hop string) bool { return !slices.Contains(was.hops, hop) }) {
			return false
		}
		return m[5] == unix.RTPROT_STATIC || !was.again && m[5] == was.protocol &&
			(len(hops) < len(was.hops) || was.sourced && !isSourced(m) ||
				m[0] == unix.AF_INET6 && withoutMTU(m) == withoutMTU(was.message))
	})
}

func isSourced(m Message) bool { return Routes().Attributes(m).Get(unix.RTA_PREFSRC) != nil }

// withoutMTU tells routes from others by all but the MTU.
func withoutMTU(m Message) string {
	m = slices.Clone(m)
	c := Routes()
	c.Settle(m)
	attributes := c.Attributes(m)
	list := ordered(attributes, append(c.Volatile(attributes), unix.RTA_METRICS))
	return string(m[:c.Header]) + string(list) + string(ordered(attributes.Get(unix.RTA_METRICS), []uint16{unix.RTAX_MTU}))
}
