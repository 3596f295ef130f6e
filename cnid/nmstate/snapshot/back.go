// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Request is one change of the kernel: a message, or a setting below /proc/sys/net.
type Request struct {
	// What tells a person what the request does.
	What string
	// Kind and Flags are those of the header of netlink, and Body is the rest.
	Kind, Flags int
	Body        Message
	// Path and Value are a setting; there is no message then.
	Path, Value string
	// Theirs: it is about what others have added, and no part of the state before.
	Theirs bool
}

func (r Request) String() string { return r.What }

// planner compares two images.
type planner struct {
	area        Area
	before, now map[uint32]link
	// taken are the indexes of devices that are there, and created the names of devices that
	// a request makes.
	taken map[uint32]bool
	// held are the addresses that devices have now.
	held    map[uint32]map[netip.Prefix]bool
	created map[string]bool
	// ports is how many ports a controller has now.
	ports map[uint32]int
	// others are the networks of IPv6 in which others have added addresses.
	others map[network]bool
	// own are the routes of the area, without others of their slots. replaced are those in whose
	// place others have written new ones.
	own, replaced map[string]bool
	// sources are the addresses that routes can have as their source.
	sources map[string]bool
	// withoutIPv6 are the settings of devices that had no IPv6, by the names of the devices.
	withoutIPv6 map[string]string
	// age is how old before is.
	age time.Duration
	// theirs: requests are about what others have added.
	theirs   bool
	requests []Request
	gone     []string
}

func (p *planner) request(r Request) {
	r.Theirs = p.theirs
	p.requests = append(p.requests, r)
}

func (p *planner) impossible(format string, args ...any) {
	p.gone = append(p.gone, fmt.Sprintf(format, args...))
}

// Back returns the requests that lead from what is now towards what was before in an area,
// in the order in which the kernel takes them. One request may undo the effect of another:
// the caller looks again, until there are none. gone says what can't exist any more, for
// example the addresses of hardware that is not there. age is how old before is.
func Back(before, now *Image, a Area, age time.Duration) (requests []Request, gone []string) {
	p := &planner{area: a, taken: map[uint32]bool{}, created: map[string]bool{}, ports: map[uint32]int{}, others: map[network]bool{}, age: age}
	before = before.renumbered(now, a)
	was, byIndex := linksOf(before)
	is, nowByIndex := linksOf(now)
	p.before, p.now, p.held = byIndex, nowByIndex, heldBy(now.Addresses)
	for _, l := range is {
		p.taken[l.index] = true
		p.ports[l.controller]++
		if other, ok := byIndex[l.index]; ok && other.name != l.name {
			delete(p.now, l.index) // another device has the index
		}
	}
	p.deleteMade(is)
	p.restoreLinks(was)
	p.restoreVLANs(before.VLANs, now.VLANs)
	p.restoreTunnels(before.VLANs, now.VLANs)
	p.restoreQueues(before, now)
	p.restoreSettings(before, now)
	p.restoreAddresses(filtered(before.Addresses, p.lasts), now.Addresses)
	present := now.on(before.Names(), a.Routes) // not of devices that others have made since
	p.sources = ownedBy(append(filtered(before.Addresses, func(m Message) bool { return p.lasts(m) && p.has(deviceOf(m)) }), now.Addresses...))
	p.own = canonical(routes(), before.on(before.Names(), a.Routes).Routes)
	p.replaced = canonical(routes(), before.Replaced)
	p.withoutIPv6 = withoutIPv6(before.Settings)
	p.restoreNextHops(before.NextHops, now.NextHops)
	p.restoreRoutes(before.Routes, present.Routes, now.Routes)
	p.restoreRules(before.Rules, now.Rules)
	p.restoreNeighbors("neighbour", before.Neighbors, now.Neighbors)
	p.restoreNeighbors("entry", before.Entries, now.Entries)
	p.restoreGroups(before.Groups, now.Groups)
	p.restoreOthers(before.Others, now)
	return p.requests, p.gone
}

func heldBy(list []Message) map[uint32]map[netip.Prefix]bool {
	held := map[uint32]map[netip.Prefix]bool{}
	for _, m := range list {
		if held[deviceOf(m)] == nil {
			held[deviceOf(m)] = map[netip.Prefix]bool{}
		}
		held[deviceOf(m)][prefixOf(m)] = true
	}
	return held
}

func namesOf(list []link) (names []string) {
	for _, l := range list {
		names = append(names, l.name)
	}
	return names
}

// has reports whether a device is there, and is the one that was there before.
func (p *planner) has(index uint32) bool {
	if _, was := p.before[index]; was {
		_, is := p.now[index]
		return is
	}
	return p.taken[index]
}

// deleteMade removes the devices that the change made, and what an undo that ended has left.
func (p *planner) deleteMade(is []link) {
	for _, l := range is {
		if p.before[l.index].name != l.name && (slices.Contains(p.area.Made, l.name) || l.name == passingPort) {
			p.remove(l)
		}
	}
}

func (p *planner) remove(l link) {
	p.request(Request{What: "delete " + l.name, Kind: unix.RTM_DELLINK, Body: about(l.index).body})
	delete(p.now, l.index)
	delete(p.taken, l.index)
}

// restoreLinks makes devices again, bases before what is on them, and gives those that are
// there their settings: controllers before their ports.
func (p *planner) restoreLinks(was []link) {
	lost := p.area.lost(was)
	p.ordered(was, func(l link) uint32 { return l.base }, func(l link) {
		now, is := p.now[l.index]
		if is && lost[l.index] && l.lostItsPorts() && !now.lostItsPorts() && p.ports[l.index] == 0 {
			is = false
			p.remove(now) // A new one can get the address.
		}
		switch {
		case is || p.created[l.name]:
		case lost[l.index]:
			p.create(l)
		case l.isOneEnd() && !slices.Contains(p.area.Names, l.name):
			// A pod has ended.
		default:
			p.impossible("%s: the interface has gone meanwhile", l.name)
		}
	})
	p.ordered(was, func(l link) uint32 { return l.controller }, func(l link) {
		if is, ok := p.now[l.index]; ok {
			p.change(l, is)
		}
	})
}

// ordered calls a function with each device, after the one that it depends on.
func (p *planner) ordered(list []link, on func(link) uint32, do func(link)) {
	done := map[uint32]bool{0: true}
	var visit func(link)
	visit = func(l link) {
		if done[l.index] {
			return
		}
		done[l.index] = true
		if other, ok := p.before[on(l)]; ok {
			visit(other)
		}
		do(l)
	}
	for _, l := range list {
		visit(l)
	}
}

// restoreSettings writes the settings of devices that are other than they were.
func (p *planner) restoreSettings(before, now *Image) {
	for name, settings := range before.Settings {
		for path, value := range settings {
			if is, ok := now.Settings[name][path]; ok && is != value {
				p.request(Request{What: "set " + path, Path: path, Value: value})
			}
		}
	}
}

// withoutIPv6 returns the settings that turn IPv6 off, by the names of devices.
func withoutIPv6(settings map[string]map[string]string) map[string]string {
	off := map[string]string{}
	for name, list := range settings {
		for path, value := range list {
			if strings.HasSuffix(path, "ipv6/conf/"+name+"/disable_ipv6") && strings.TrimSpace(value) == "1" {
				off[name] = path
			}
		}
	}
	return off
}

// restoreNeighbors adds neighbours or entries of bridges that are missing. No change adds any, so
// those that others have added or rewritten meanwhile stay. Those on devices that are not there
// are left out.
func (p *planner) restoreNeighbors(what string, before, now []Message) {
	c, have := neighbors(), map[string]bool{}
	for _, m := range now {
		have[placeOfNeighbor(m)] = true
	}
	for _, m := range before {
		if !have[placeOfNeighbor(m)] && p.has(deviceOf(m)) {
			p.request(Request{What: fmt.Sprintf("add a %s of %s", what, p.deviceName(m)), Kind: c.add, Flags: c.create, Body: lastingEntry(m)})
		}
	}
}

// placeOfNeighbor tells neighbours and entries from others that can be there with them. A bridge
// has an address of a VLAN at one port; a tunnel without a bridge may have it at several others.
func placeOfNeighbor(m Message) string {
	const flags = 10
	list := neighbors().attributes(m)
	if bridge := list.Get(unix.NDA_MASTER); bridge != nil {
		return fmt.Sprintf("bridge %x %x %x", bridge, list.Get(unix.NDA_VLAN), list.Get(unix.NDA_LLADDR))
	}
	if m[0] == unix.AF_BRIDGE {
		return neighbors().canonical(m)
	}
	return fmt.Sprintf("%d %d %t %x", m[0], deviceOf(m), m[flags]&unix.NTF_PROXY != 0, list.Get(unix.NDA_DST))
}

// lastingEntry returns a neighbour or an entry of a bridge as a request has it. A dump does not
// tell whether a proxy is permanent. The kernel removes any other with the carrier, and none
// was removed so far.
func lastingEntry(m Message) Message {
	const state, flags = 8, 10
	if m[flags]&unix.NTF_PROXY == 0 {
		return m
	}
	m = slices.Clone(m)
	binary.NativeEndian.PutUint16(m[state:], unix.NUD_PERMANENT)
	return m
}

func canonical(c class, list []Message) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, m := range list {
		set[c.canonical(m)] = true
	}
	return set
}

// deviceName returns the name of a message's device, also of one that others have made.
func (p *planner) deviceName(m Message) string {
	if l, ok := p.before[deviceOf(m)]; ok {
		return l.name
	}
	return p.now[deviceOf(m)].name
}
