// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/said"
)

// Area is what a change may touch, and what an undo compares.
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
	// Identified are the devices to which it gives another address of the link.
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
}

// Destination is where a route leads to, and its table.
type Destination struct {
	Prefix netip.Prefix
	Table  uint32
}

// Addition is a route that a change adds.
type Addition struct {
	Destination
	// Gateway is the zero Addr for a route without one, and nil for any: a record of an earlier
	// release has none.
	Gateway *netip.Addr `json:",omitempty"`
}

// Reach returns the names of an area's devices, with those that the kernel changes with
// them: controllers and ports, what is derived from one, other ends of pairs.
func (a Area) Reach(i *Image) []string {
	list, byIndex := linksOf(i)
	reached := map[uint32]bool{}
	for grown := true; grown; {
		grown = false
		for _, l := range list {
			if reached[l.index] || !slices.Contains(a.Names, l.name) && !slices.Contains(a.Reached, l.name) && !reached[l.base] && !reached[l.controller] {
				continue
			}
			reached[l.index], grown = true, true
		}
	}
	names := slices.Concat(a.Names, a.Reached)
	for index := range reached {
		l := byIndex[index]
		names = append(names, l.name)
		if controller, ok := byIndex[l.controller]; ok {
			names = append(names, controller.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lost returns the devices of an image that may have gone with those that a change removes.
func (a Area) lost(list []link) map[uint32]bool {
	lost := map[uint32]bool{}
	for grown := true; grown; {
		grown = false
		for _, l := range list {
			if !lost[l.index] && (slices.Contains(a.Removed, l.name) || lost[l.base]) {
				lost[l.index], grown = true, true
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

// Within returns what an image has of an area: its devices, and the addresses, neighbours
// and next hops on them; routes through one of them, or with a source address of one, and those
// of their slots.
func (i *Image) Within(a Area) *Image {
	part := i.on(a.Reach(i), a.Routes)
	part.Routes = withOthersOfSlots(i.Routes, part.Routes)
	return part
}

// on returns what an image has of some devices, by their sorted names, and of some routes.
func (i *Image) on(names []string, to []Destination) *Image {
	in := map[uint32]bool{}
	part := &Image{Rules: i.Rules, Settings: map[string]map[string]string{}}
	part.Links = filtered(i.Links, func(m Message) bool {
		l := linkOf(m)
		_, is := slices.BinarySearch(names, l.name)
		if settings, ok := i.Settings[l.name]; ok && is {
			part.Settings[l.name] = settings
		}
		in[l.index] = is
		return is
	})
	onDevice := func(m Message) bool { return in[deviceOf(m)] }
	part.Addresses, part.Neighbors = filtered(i.Addresses, onDevice), filtered(i.Neighbors, onDevice)
	part.VLANs, part.Entries = filtered(i.VLANs, onDevice), filtered(i.Entries, onDevice)
	part.Groups = filtered(i.Groups, onDevice)
	part.Queues, part.Classes = filtered(i.Queues, onDevice), filtered(i.Classes, onDevice)
	owned, hops := ownedBy(part.Addresses), i.hopsOn(in)
	part.NextHops = filtered(i.NextHops, func(m Message) bool { return hops[nextHops().attributes(m).Value(nextHopID)] })
	part.Routes = filtered(i.Routes, func(m Message) bool {
		attributes := routes().attributes(m)
		return slices.Contains(to, destination(m)) || owned[string(attributes.Get(unix.RTA_PREFSRC))] ||
			hops[attributes.Value(routeNextHop)] || slices.ContainsFunc(outsOf(m), func(out uint32) bool { return in[out] })
	})
	return part
}

// ownedBy returns the addresses of a list, as routes have them.
func ownedBy(list []Message) map[string]bool {
	owned := map[string]bool{}
	for _, m := range list {
		for _, kind := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
			if ip := addresses().attributes(m).Get(kind); ip != nil {
				owned[string(ip)] = true
			}
		}
	}
	return owned
}

func filtered(list []Message, keep func(Message) bool) []Message {
	return slices.DeleteFunc(slices.Clone(list), func(m Message) bool { return !keep(m) })
}

// Final returns what a change of an area would delete that no undo can bring back. The image
// is that of all devices. above are the devices of other network namespaces on top of these, by
// index: no image has them, and pods may have named them.
func (i *Image) Final(a Area, above map[uint32][]string) (final []string) {
	list, _ := linksOf(i)
	lost := a.lost(list)
	after := *i
	after.Links = filtered(i.Links, func(m Message) bool { return !lost[deviceOf(m)] })
	_, final = Back(i, &after, a, 0)
	for _, l := range list {
		if what := l.unkept(); lost[l.index] && what != "" {
			final = append(final, fmt.Sprintf("%s: %s", l.name, what))
		}
		if names := above[l.index]; lost[l.index] && len(names) > 0 {
			final = append(final, fmt.Sprintf("%s: the interface %s on it, in another network namespace", l.name, said.Names(names)))
		}
		if !lost[l.index] && l.lostItsPorts() && slices.Contains(a.Identified, l.name) {
			final = append(final, fmt.Sprintf("%s: the address zero, which a bridge has after its last port", l.name))
		}
	}
	return append(final, i.finalQueues(lost)...)
}

// finalQueues returns the queueing disciplines and filters of devices that are lost for good
// with them.
func (i *Image) finalQueues(devices map[uint32]bool) (final []string) {
	for _, m := range i.Queues {
		if what := unkeptQueue(m); what != "" && devices[deviceOf(m)] {
			final = append(final, fmt.Sprintf("%s: %s", linkOf(i.device(deviceOf(m))).name, what))
		}
	}
	for _, m := range i.Filters {
		final = append(final, fmt.Sprintf("%s: the filter %s (tc-%[2]s(8))", linkOf(i.device(deviceOf(m))).name, kindOfQueue(m)))
	}
	slices.Sort(final)
	return slices.Compact(final)
}

// device returns the message of a device.
func (i *Image) device(index uint32) Message {
	at := slices.IndexFunc(i.Links, func(m Message) bool { return deviceOf(m) == index })
	if at < 0 {
		return nil
	}
	return i.Links[at]
}

// unkept returns what a device has beside its messages, "" for nothing.
func (l link) unkept() string {
	const attached, sources = 2, 6 // IFLA_XDP_ATTACHED, IFLA_MACVLAN_MACADDR_COUNT
	switch {
	case l.Get(unix.IFLA_XDP).Value(attached) != 0:
		return "a program of XDP"
	case l.driver == "macvlan" && l.data.Value(sources) != 0:
		return "a list of source addresses"
	case slices.Contains([]string{"macsec", "wireguard", "tun", "team", "hsr", "batadv"}, l.driver):
		return "settings of " + l.driver + " that another program made"
	}
	return ""
}
