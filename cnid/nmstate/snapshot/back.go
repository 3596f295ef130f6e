// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
)

// Request is one change of the kernel: a message, or a setting below /proc/sys/net.
type Request struct {
	// What tells a person what the request does.
	What string
	// Kind and Flags are fields of the netlink header, and Body is the rest of the message.
	Kind, Flags int
	Body        Message
	// Path and Value are a setting. A request with a setting has no message.
	Path, Value string
	// Theirs: it is about what others have added, and no part of the state before.
	Theirs bool
}

func (r Request) String() string { return r.What }

// planner compares two images.
type planner struct {
	area        Area
	before, now map[uint32]object.Link
	// taken are the indexes of devices that are there, and created the names of devices that
	// a request makes.
	taken map[uint32]bool
	// held are the addresses that devices have now.
	held    map[uint32]map[netip.Prefix]bool
	created map[string]bool
	// ports is how many ports a controller has now.
	ports map[uint32]int
	// others are the networks of IPv6 with addresses that others have added.
	others map[network]bool
	// own are the routes of the area, without others of their slots. replaced are those in whose
	// place others have written new ones.
	own, replaced map[string]bool
	// sources are the addresses that routes can have as their source.
	sources map[string]bool
	// withoutIPv6 are the settings of devices that had no IPv6, by the names of the devices.
	withoutIPv6 map[string]string
	// under are the devices outside of the area that carry routes of it, as they are now.
	under map[uint32]object.Link
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

// Back returns the requests that lead from the present state of an area towards its former state,
// in the kernel's order. One request may undo the effect of an earlier one: the caller compares
// again, until no request is left. gone has the objects that can't exist any longer, for example
// the addresses of removed hardware. age is the age of before.
func Back(before, now *Image, a Area, age time.Duration) (requests []Request, gone []string) {
	p := &planner{
		area:    a,
		taken:   map[uint32]bool{},
		created: map[string]bool{},
		ports:   map[uint32]int{},
		others:  map[network]bool{},
		age:     age,
	}
	before = before.renumbered(now, a)
	was, byIndex := linksOf(before)
	is, nowByIndex := linksOf(now)
	p.before, p.now, p.held = byIndex, nowByIndex, heldBy(now.Addresses)
	for _, l := range is {
		p.taken[l.Index] = true
		p.ports[l.Controller]++
		if other, ok := byIndex[l.Index]; ok && other.Name != l.Name {
			delete(p.now, l.Index) // another device has the index
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
	p.sources = ownedBy(
		append(
			filtered(before.Addresses, func(m Message) bool { return p.lasts(m) && p.has(object.DeviceOf(m)) }),
			now.Addresses...),
	)
	p.own = canonical(object.Routes(), before.on(before.Names(), a.Routes).Routes)
	p.replaced = canonical(object.Routes(), before.Replaced)
	p.withoutIPv6 = withoutIPv6(before.Settings)
	p.noteUnder(now)
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
		if held[object.DeviceOf(m)] == nil {
			held[object.DeviceOf(m)] = map[netip.Prefix]bool{}
		}
		held[object.DeviceOf(m)][object.PrefixOf(m)] = true
	}
	return held
}

func namesOf(list []object.Link) (names []string) {
	for _, l := range list {
		names = append(names, l.Name)
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
func (p *planner) deleteMade(is []object.Link) {
	for _, l := range is {
		if p.before[l.Index].Name != l.Name && (slices.Contains(p.area.Made, l.Name) || l.Name == passingPort) {
			p.remove(l)
		}
	}
}

func (p *planner) remove(l object.Link) {
	p.request(Request{What: "delete " + l.Name, Kind: unix.RTM_DELLINK, Body: object.About(l.Index).Body})
	delete(p.now, l.Index)
	delete(p.taken, l.Index)
}

// restoreLinks makes devices again, bases before the devices on them, and restores the settings
// of existing devices: controllers before their ports.
func (p *planner) restoreLinks(was []object.Link) {
	lost := p.area.lost(was)
	p.ordered(was, func(l object.Link) uint32 { return l.Base }, func(l object.Link) {
		now, is := p.now[l.Index]
		if is && lost[l.Index] && l.LostItsPorts() && !now.LostItsPorts() && p.ports[l.Index] == 0 {
			is = false
			p.remove(now) // A new one can get the address.
		}
		switch {
		case is || p.created[l.Name]:
		case lost[l.Index]:
			p.create(l)
		case l.IsOneEnd() && !slices.Contains(p.area.Names, l.Name):
			// A pod has ended.
		default:
			p.impossible("%s: the interface has gone meanwhile", l.Name)
		}
	})
	p.ordered(was, func(l object.Link) uint32 { return l.Controller }, func(l object.Link) {
		if is, ok := p.now[l.Index]; ok {
			p.change(l, is)
		}
	})
}

// ordered calls a function with each device, after the one that it depends on.
func (p *planner) ordered(list []object.Link, on func(object.Link) uint32, do func(object.Link)) {
	done := map[uint32]bool{0: true}
	var visit func(object.Link)
	visit = func(l object.Link) {
		if done[l.Index] {
			return
		}
		done[l.Index] = true
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

// noteUnder notes the devices outside of the area that carry routes of it. No undo restores such a
// device, so the present settings count.
func (p *planner) noteUnder(now *Image) {
	p.under = map[uint32]object.Link{}
	off := withoutIPv6(now.Settings)
	for index, l := range p.now {
		if _, inside := p.before[index]; inside || !slices.Contains(p.area.Under, l.Name) {
			continue
		}
		p.under[index] = l
		if path := off[l.Name]; path != "" {
			p.withoutIPv6[l.Name] = path
		}
	}
}

// carrier returns the device that carries a route: its former state in the area, its present
// state outside.
func (p *planner) carrier(index uint32) (object.Link, bool) {
	if l, ok := p.before[index]; ok {
		return l, true
	}
	l, ok := p.under[index]
	return l, ok
}

// restoreNeighbors adds neighbours or entries of bridges that are missing. No change adds any, so
// those that others have added or rewritten meanwhile stay. Those on devices that are not there
// are left out.
func (p *planner) restoreNeighbors(what string, before, now []Message) {
	c, have := object.Neighbors(), map[string]bool{}
	for _, m := range now {
		have[object.PlaceOfNeighbor(m)] = true
	}
	for _, m := range before {
		if !have[object.PlaceOfNeighbor(m)] && p.has(object.DeviceOf(m)) {
			p.request(
				Request{
					What:  fmt.Sprintf("add a %s of %s", what, p.deviceName(m)),
					Kind:  c.Add,
					Flags: c.Create,
					Body:  object.LastingEntry(m),
				},
			)
		}
	}
}

func canonical(c object.Class, list []Message) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, m := range list {
		set[c.Canonical(m)] = true
	}
	return set
}

// deviceName returns the name of a message's device, also of one that others have made.
func (p *planner) deviceName(m Message) string {
	if l, ok := p.before[object.DeviceOf(m)]; ok {
		return l.Name
	}
	return p.now[object.DeviceOf(m)].Name
}
