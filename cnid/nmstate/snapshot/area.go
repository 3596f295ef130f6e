// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
)

// Area lists the devices, addresses, names, routes and rules that a change may touch. An undo
// compares them.
type Area struct {
	// Names are the devices that the change names, or makes.
	Names []string
	// Reached are those that the kernel may change with them.
	Reached []string
	// Made are the devices that it makes: an undo removes them.
	Made []string
	// Removed are the devices that it removes: an undo makes these again, and what went with
	// them. Nobody knows why others are gone.
	Removed []string
	// Identified are the devices whose link-layer address changes.
	Identified []string
	// Addresses are those that it adds, by device: an undo removes no others that were not there
	// before. nil is of a record of an earlier release: an undo removes all of them.
	Addresses map[string][]netip.Prefix
	// AltNames are the alternative names that it adds, by device: an undo removes no others.
	AltNames map[string][]string `json:",omitempty"`
	// Routes are the routes that it adds and removes: some lead to no device. An undo removes
	// no other routes than those that it adds.
	Routes []Destination
	Added  []Addition
	// Rules are the priorities of the rules that it adds and removes.
	Rules []uint32
	// Under are the devices outside of the area that carry routes of it. An undo turns IPv6 on, or
	// sets such a device up, for as long as the kernel takes to add a route.
	Under []string `json:",omitempty"`
}

// Addition is a route that a change adds.
type Addition struct {
	Destination
	// Gateway is the zero Addr for a route without one, and nil for any: a record of an earlier
	// release has none.
	Gateway *netip.Addr `json:",omitempty"`
}

// Reach returns the names of an area's devices, and of the devices that the kernel changes with
// them: controllers and ports, derived devices, other ends of pairs.
func (a Area) Reach(i *Image) []string {
	list, byIndex := linksOf(i)
	reached := map[uint32]bool{}
	for grown := true; grown; {
		grown = false
		for _, l := range list {
			if reached[l.Index] ||
				!slices.Contains(a.Names, l.Name) && !slices.Contains(a.Reached, l.Name) && !reached[l.Base] &&
					!reached[l.Controller] {
				continue
			}
			reached[l.Index], grown = true, true
		}
	}
	names := slices.Concat(a.Names, a.Reached)
	for index := range reached {
		l := byIndex[index]
		names = append(names, l.Name)
		if controller, ok := byIndex[l.Controller]; ok {
			names = append(names, controller.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lost returns the devices of an image that may have gone with those that a change removes.
func (a Area) lost(list []object.Link) map[uint32]bool {
	lost := map[uint32]bool{}
	for grown := true; grown; {
		grown = false
		for _, l := range list {
			if !lost[l.Index] && (slices.Contains(a.Removed, l.Name) || lost[l.Base]) {
				lost[l.Index], grown = true, true
			}
		}
	}
	return lost
}

// Names returns the sorted names of an image's devices.
func (i *Image) Names() []string {
	list, _ := linksOf(i)
	names := namesOf(list)
	slices.Sort(names)
	return slices.Compact(names)
}

// Within returns the part of an image in an area. It has the devices of the area, and the
// addresses, neighbours and next hops on them. It has the routes through one of the devices, or
// with a source address of one, and the other routes of the same slots.
func (i *Image) Within(a Area) *Image {
	part := i.on(a.Reach(i), a.Routes)
	part.Routes = withOthersOfSlots(i.Routes, part.Routes)
	return part
}

// Under returns the sorted names of the devices that carry routes of a part of an image, without
// the devices of the part.
func (i *Image) Under(part *Image) (names []string) {
	_, all := linksOf(i)
	_, inside := linksOf(part)
	for _, m := range part.Routes {
		for _, out := range object.OutsOf(m) {
			if l, ok := all[out]; ok && inside[out].Name == "" {
				names = append(names, l.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// on returns what an image has of some devices, by their sorted names, and of some routes.
func (i *Image) on(names []string, to []Destination) *Image {
	in := map[uint32]bool{}
	part := &Image{Rules: i.Rules, Settings: map[string]map[string]string{}}
	part.Links = filtered(i.Links, func(m Message) bool {
		l := object.LinkOf(m)
		_, is := slices.BinarySearch(names, l.Name)
		if settings, ok := i.Settings[l.Name]; ok && is {
			part.Settings[l.Name] = settings
		}
		in[l.Index] = is
		return is
	})
	onDevice := func(m Message) bool { return in[object.DeviceOf(m)] }
	part.Addresses, part.Neighbors = filtered(i.Addresses, onDevice), filtered(i.Neighbors, onDevice)
	part.VLANs, part.Entries = filtered(i.VLANs, onDevice), filtered(i.Entries, onDevice)
	part.Groups = filtered(i.Groups, onDevice)
	part.Queues, part.Classes = filtered(i.Queues, onDevice), filtered(i.Classes, onDevice)
	owned, hops := ownedBy(part.Addresses), i.hopsOn(in)
	part.NextHops = filtered(
		i.NextHops,
		func(m Message) bool { return hops[object.NextHops().Attributes(m).Value(object.NextHopID)] },
	)
	part.Routes = filtered(i.Routes, func(m Message) bool {
		attributes := object.Routes().Attributes(m)
		return slices.Contains(to, object.DestinationOf(m)) || owned[string(attributes.Get(unix.RTA_PREFSRC))] ||
			hops[attributes.Value(object.RouteNextHop)] || slices.ContainsFunc(
			object.OutsOf(m), func(out uint32) bool { return in[out] },
		)
	})
	return part
}

// ownedBy returns the addresses of a list, as routes have them.
func ownedBy(list []Message) map[string]bool {
	owned := map[string]bool{}
	for _, m := range list {
		for _, kind := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
			if ip := object.Addresses().Attributes(m).Get(kind); ip != nil {
				owned[string(ip)] = true
			}
		}
	}
	return owned
}

func filtered(list []Message, keep func(Message) bool) []Message {
	return slices.DeleteFunc(slices.Clone(list), func(m Message) bool { return !keep(m) })
}

// Final returns the objects that a change of an area would delete, and that no undo can restore.
// The image is an image of all devices. above are the devices of other network namespaces on top
// of these, by index: no image has them, and pods may have named them.
func (i *Image) Final(a Area, above map[uint32][]string) (final []string) {
	list, _ := linksOf(i)
	lost := a.lost(list)
	after := *i
	after.Links = filtered(i.Links, func(m Message) bool { return !lost[object.DeviceOf(m)] })
	_, final = Back(i, &after, a, 0)
	for _, l := range list {
		if what := l.Unkept(); lost[l.Index] && what != "" {
			final = append(final, fmt.Sprintf("%s: %s", l.Name, what))
		}
		if names := above[l.Index]; lost[l.Index] && len(names) > 0 {
			final = append(
				final,
				fmt.Sprintf("%s: the interface %s on it, in another network namespace", l.Name, quote.Names(names)),
			)
		}
		if !lost[l.Index] && l.LostItsPorts() && slices.Contains(a.Identified, l.Name) {
			final = append(final, fmt.Sprintf("%s: the address zero, which a bridge has after its last port", l.Name))
		}
	}
	return append(final, i.finalQueues(lost)...)
}

// finalQueues returns the queueing disciplines and filters of devices that are lost for good
// with them.
func (i *Image) finalQueues(devices map[uint32]bool) (final []string) {
	for _, m := range i.Queues {
		if what := object.UnkeptQueue(m); what != "" && devices[object.DeviceOf(m)] {
			final = append(final, fmt.Sprintf("%s: %s", object.LinkOf(i.device(object.DeviceOf(m))).Name, what))
		}
	}
	for _, m := range i.Filters {
		final = append(
			final,
			fmt.Sprintf(
				"%s: the filter %s (tc-%[2]s(8))",
				object.LinkOf(i.device(object.DeviceOf(m))).Name,
				object.KindOfQueue(m),
			),
		)
	}
	slices.Sort(final)
	return slices.Compact(final)
}

// device returns the message of a device.
func (i *Image) device(index uint32) Message {
	at := slices.IndexFunc(i.Links, func(m Message) bool { return object.DeviceOf(m) == index })
	if at < 0 {
		return nil
	}
	return i.Links[at]
}
