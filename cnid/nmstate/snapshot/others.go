// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
)

// NotesOthers reports whether an image has a note of what others have added.
func (i *Image) NotesOthers() bool { return i.Others != nil }

// WithOthers returns an image with a note of what others have added in an area of it since, or
// written in the place of something old. An undo adds that again where it loses it: the kernel
// drops addresses of IPv6, routes, next hops, neighbours and entries of a device that goes down,
// gets another controller or is made again. age is how old the image is, and now is all of a host.
func (i *Image) WithOthers(now *Image, a Area, age time.Duration) *Image {
	now = now.numberedAs(i)
	f := i.newcomersTo(now, a)
	present := now.on(f.names(now), a.Routes)
	o := &Image{
		Links:     filtered(present.Links, f.isDevice),
		Addresses: each(filtered(present.Addresses, f.isAddress), func(m Message) { object.ProlongAddress(m, age) }),
		NextHops:  filtered(present.NextHops, f.isNextHop),
		Neighbors: filtered(present.Neighbors, f.isNeighbor),
		Entries:   filtered(present.Entries, f.isEntry),
		Groups:    filtered(present.Groups, f.isGroup),
	}
	for _, m := range filtered(present.Routes, f.isRoute) {
		if m = f.withoutAdded(m); m != nil {
			o.Routes = append(o.Routes, m)
		}
	}
	part := *i
	have, rewritten := canonical(object.Routes(), now.Routes), object.RewrittenBy(o.Routes)
	part.Replaced = filtered(i.Routes, func(m Message) bool { return !have[object.Routes().Canonical(m)] && rewritten(m) })
	part.NextHops = elsewhere(i.NextHops, o.NextHops, object.NumberOfHop)
	part.Neighbors = elsewhere(i.Neighbors, o.Neighbors, object.PlaceOfNeighbor)
	part.Entries = elsewhere(i.Entries, o.Entries, object.PlaceOfNeighbor)
	o.Routes = each(o.Routes, func(m Message) { object.ProlongRoute(m, age) })
	part.Others = o
	return &part
}

// numberedAs returns an image with the indexes that its devices had in an older one, where those
// are free: an undo makes these devices again.
func (i *Image) numberedAs(older *Image) *Image {
	was, moved := older.Indexes(), indexes{}
	_, taken := linksOf(i)
	for name, index := range i.Indexes() {
		if old, ok := was[name]; ok && old != index && taken[old].Name == "" {
			moved[index] = old
		}
	}
	if len(moved) == 0 {
		return i
	}
	return i.moved(moved)
}

// elsewhere returns the messages of a list in whose places others have none.
func elsewhere(list, others []Message, place func(Message) string) []Message {
	if len(others) == 0 {
		return list
	}
	in := map[string]bool{}
	for _, m := range others {
		in[place(m)] = true
	}
	return filtered(list, func(m Message) bool { return !in[place(m)] })
}

// newcomers tells objects that others have added from three other kinds: from former objects,
// from objects of the change, and from objects that could not exist before. For example, a device
// that was down had no routes.
type newcomers struct {
	planner
	// devices are the former devices, and the devices that others have made on them.
	devices map[uint32]object.Link
	// own are addresses of devices; the kernel makes entries of bridges for them.
	own map[string]bool
	// there are the objects of before, by their canonical bytes, and hops its next hops by number.
	there map[string]bool
	hops  map[string]Message
	// places has the carriers of the neighbours and entries of before, by their places.
	places map[string]string
	vlans  map[uint32]map[uint16]uint16
	ways   object.Ways
}

func (i *Image) newcomersTo(now *Image, a Area) *newcomers {
	_, before := linksOf(i)
	f := &newcomers{
		planner: planner{area: a, before: before, withoutIPv6: withoutIPv6(i.Settings)},
		devices: map[uint32]object.Link{}, own: map[string]bool{}, there: map[string]bool{}, hops: map[string]Message{},
		places: map[string]string{}, vlans: map[uint32]map[uint16]uint16{},
		ways: object.WaysOf(i.on(i.Names(), a.Routes).Routes),
	}
	maps.Copy(f.devices, before)
	reach := a.Reach(now)
	list, _ := linksOf(now)
	for _, l := range list {
		f.own[string(l.Get(unix.IFLA_ADDRESS))] = true
		if _, is := before[l.Index]; !is && slices.Contains(reach, l.Name) && !f.isOfChange(l.Name) {
			f.devices[l.Index] = l
		}
	}
	for _, m := range i.Addresses {
		f.there[object.PlaceOfAddress(m)] = true
	}
	for _, m := range i.Routes {
		f.there[object.Routes().Canonical(m)] = true
	}
	for _, m := range i.Groups {
		f.there[object.Groups().Canonical(m)] = true
	}
	for _, m := range i.NextHops {
		f.hops[object.NumberOfHop(m)] = m
	}
	for _, m := range slices.Concat(i.Neighbors, i.Entries) {
		f.places[object.PlaceOfNeighbor(m)] = object.CarrierOf(m)
	}
	for _, m := range i.VLANs {
		f.vlans[object.DeviceOf(m)] = object.VLANsOf(m)
	}
	return f
}

// isOfChange reports whether the change made a device of a name, or had one. Then a different
// device of the name does not belong to others.
func (f *newcomers) isOfChange(name string) bool {
	return slices.Contains(f.area.Made, name) || slices.Contains(f.area.Names, name) || name == passingPort
}

// names returns the sorted names that the devices have now.
func (f *newcomers) names(now *Image) (names []string) {
	list, _ := linksOf(now)
	for _, l := range list {
		if is, ok := f.devices[l.Index]; ok && is.Name == l.Name {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isDevice reports whether others have made a device. One on a device that was down was down too,
// but for the end of a pair.
func (f *newcomers) isDevice(m Message) bool {
	l := object.LinkOf(m)
	_, was := f.before[l.Index]
	return !was && (l.Driver == "veth" || f.isUp(l.Base))
}

// isUp reports whether a device is new, or was up before.
func (f *newcomers) isUp(index uint32) bool {
	l, ok := f.devices[index]
	return !ok || l.Flags&unix.IFF_UP != 0
}

// takes reports whether a device had a family. The kernel has no IPv6 on devices with a smaller
// MTU.
func (f *newcomers) takes(family byte, index uint32) bool {
	const least = 1280
	l, ok := f.devices[index]
	return family != unix.AF_INET6 || !ok || f.withoutIPv6[l.Name] == "" && l.Value(unix.IFLA_MTU) >= least
}

func (f *newcomers) isAddress(m Message) bool {
	return !f.there[object.PlaceOfAddress(m)] && !f.isMade(m) && !object.IsAutomatic(m) &&
		f.takes(m[0], object.DeviceOf(m))
}

func (f *newcomers) isNextHop(m Message) bool {
	c := object.NextHops()
	was, is := f.hops[object.NumberOfHop(m)]
	if is && (c.Canonical(was) == c.Canonical(m) || object.IsPart(c.Attributes(m), c.Attributes(was))) {
		return false
	}
	out := c.Attributes(m).Value(object.NextHopOut)
	return f.isUp(out) && f.takes(m[0], out)
}

// isRoute reports whether others have added a route. The kernel and the clients of leases add
// theirs again.
func (f *newcomers) isRoute(m Message) bool {
	switch m[5] {
	case unix.RTPROT_KERNEL, unix.RTPROT_RA, unix.RTPROT_DHCP:
		return false
	}
	if f.there[object.Routes().Canonical(m)] || f.ways.HasPart(m) || f.isAdded(m) {
		return false
	}
	return !slices.ContainsFunc(object.OutsOf(m), func(out uint32) bool { return !f.isUp(out) || !f.takes(m[0], out) })
}

// withoutAdded returns a route of others without the next hops of IPv6 that the change has added to
// it, nil if none is left.
func (f *newcomers) withoutAdded(m Message) Message {
	list := object.Routes().Attributes(m).Get(unix.RTA_MULTIPATH)
	if m[0] != unix.AF_INET6 || list == nil {
		return m
	}
	all, kept := 0, [][]byte{}
	for hop := range object.HopsOf(list) {
		all++
		if f.ways.HasHop(m, hop) || !f.adds(m, hop[unix.SizeofRtNexthop:]) {
			kept = append(kept, hop)
		}
	}
	if len(kept) == all {
		return m
	}
	return object.WithHops(m, kept)
}

// isNeighbor reports whether others have added a neighbour, or given it another address.
func (f *newcomers) isNeighbor(m Message) bool {
	carrier, was := f.places[object.PlaceOfNeighbor(m)]
	return (!was || carrier != object.CarrierOf(m)) && f.takes(m[0], object.DeviceOf(m))
}

// isEntry is isNeighbor for entries of bridges. The kernel makes the entries for devices, and the
// entry for all addresses of a tunnel.
func (f *newcomers) isEntry(m Message) bool {
	const state = 8
	list := object.Neighbors().Attributes(m)
	to := list.Get(unix.NDA_LLADDR)
	if m[state]&unix.NUD_PERMANENT != 0 && (object.IsZero(to) || f.own[string(to)]) {
		return false
	}
	vlans, known := f.vlans[object.DeviceOf(m)]
	if vid, tagged := list.Number(unix.NDA_VLAN); tagged && known {
		if _, has := vlans[uint16(vid)]; !has {
			return false
		}
	}
	return f.isPortOf(object.DeviceOf(m), list.Value(unix.NDA_MASTER)) && f.isNeighbor(m)
}

func (f *newcomers) isGroup(m Message) bool {
	port := object.PortOfGroup(m)
	return len(port) >= object.SizeOfGroup && !f.there[object.Groups().Canonical(m)] &&
		f.isPortOf(binary.NativeEndian.Uint32(port), object.DeviceOf(m))
}

// isPortOf reports whether a device was a port of a bridge, or is that itself. No bridge is 0.
func (f *newcomers) isPortOf(device, bridge uint32) bool {
	return bridge == 0 || device == bridge || f.devices[device].Controller == bridge
}

// restoreOthers adds what others have added, and the undo has lost. The kernel may refuse some:
// the state before may lack the network of a gateway.
func (p *planner) restoreOthers(o, now *Image) {
	if o == nil {
		return
	}
	p.theirs = true
	p.restoreTheirDevices(o.Links)
	p.restoreTheirAddresses(o.Addresses, now.Addresses)
	p.restoreNextHops(o.NextHops, now.NextHops)
	have := canonical(object.Routes(), now.Routes)
	for _, m := range o.Routes {
		if !have[object.Routes().Canonical(m)] && p.remains(m) && p.canExist(m) {
			p.addRoute(m)
		}
	}
	p.restoreNeighbors("neighbour", o.Neighbors, now.Neighbors)
	p.restoreNeighbors("entry", o.Entries, now.Entries)
	p.restoreGroups(o.Groups, now.Groups)
}

// restoreTheirAddresses adds those that are missing. One of IPv6 is added once more, without the
// flag that let it be usable at once.
func (p *planner) restoreTheirAddresses(list, now []Message) {
	c := object.Addresses()
	have := canonical(c, now)
	lasting := filtered(list, func(m Message) bool { return p.has(object.DeviceOf(m)) && p.lasts(m) })
	maps.Copy(p.sources, ownedBy(lasting))
	for _, m := range lasting {
		if !p.holds(m) || m[0] == unix.AF_INET6 && !have[c.Canonical(m)] {
			p.addAddress(m, c.Create, p.age)
		}
	}
}

// restoreTheirDevices attaches the devices of others to their controllers, and sets them up. It
// makes none again: their owners may have removed them.
func (p *planner) restoreTheirDevices(links []Message) {
	for _, m := range links {
		was := object.LinkOf(m)
		is, ok := p.now[was.Index]
		if !ok || is.Name != was.Name {
			continue
		}
		if controller, ok := p.now[was.Controller]; ok && was.Controller != is.Controller {
			p.attach(was, is, controller)
		}
		if was.Flags&^is.Flags&unix.IFF_UP != 0 {
			p.link(is, "set up "+was.Name, func(b *object.Builder) { b.Flags(unix.IFF_UP, unix.IFF_UP) })
		}
	}
}
