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
