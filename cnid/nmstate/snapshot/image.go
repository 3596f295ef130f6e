// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot keeps what the kernel has of a host's network, as the messages of
// rtnetlink(7) that make it again, and says which requests lead back to that.
//
// Nothing goes through the model of documents: an attribute that no document can say is
// restored too. Take asks the kernel. Back compares two images, and has no effects.
package snapshot

import (
	"context"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
)

// Kernel is one network namespace.
type Kernel interface {
	// Dump returns all objects of a kind.
	Dump(ctx context.Context, kind int, data ...nl.NetlinkRequestData) ([][]byte, error)
	// Settings returns the settings of a device below /proc/sys/net, by path.
	Settings(name string) (map[string]string, error)
}

// Image holds the network state of a kernel: links, addresses, routes and rules, and the VLANs,
// queues and settings of devices.
type Image struct {
	Links     []Message `json:"links"`
	Addresses []Message `json:"addresses"`
	NextHops  []Message `json:"nextHops,omitempty"`
	Routes    []Message `json:"routes"`
	Rules     []Message `json:"rules"`
	// Survivors are the routes of programs that the change itself did not remove.
	Survivors []Message `json:"survivors,omitempty"`
	// Staying are the addresses that it did not remove. A device that has none of a family any more
	// has lost them together, with the family or with itself: then nobody withdrew one of them.
	Staying   []Message `json:"staying,omitempty"`
	Neighbors []Message `json:"neighbors,omitempty"`
	// VLANs are the VLANs of ports of bridges, and Entries the entries of bridges' tables of
	// addresses.
	VLANs   []Message `json:"vlans,omitempty"`
	Entries []Message `json:"entries,omitempty"`
	// Groups are the multicast groups that administrators or programs added to bridges.
	Groups []Message `json:"groups,omitempty"`
	// Queues are the queueing disciplines that somebody made.
	Queues []Message `json:"queues,omitempty"`
	// Classes are the classes of Queues, and Filters the filters, of devices that a change
	// removes. No undo makes filters again.
	Classes []Message `json:"classes,omitempty"`
	Filters []Message `json:"-"`
	// Settings are the settings of devices, by name and path.
	Settings map[string]map[string]string `json:"settings,omitempty"`
	// Others holds the objects that others had added when an undo began, nil before. Replaced
	// are the routes in whose place they have written new ones.
	Others   *Image    `json:"others,omitempty"`
	Replaced []Message `json:"replaced,omitempty"`
}

// Check returns an error for an image whose messages are shorter than their headers. It is for
// images of files.
func (i *Image) Check() error {
	for _, list := range []struct {
		header   int
		messages []Message
	}{
		{unix.SizeofIfInfomsg, i.Links},
		{object.HeaderOfAddress, i.Addresses},
		{object.HeaderOfNextHop, i.NextHops},
		{object.HeaderOfRoute, i.Routes},
		{object.HeaderOfRoute, i.Rules},
		{object.HeaderOfRoute, i.Survivors},
		{object.HeaderOfAddress, i.Staying},
		{object.HeaderOfNeighbor, i.Neighbors},
		{unix.SizeofIfInfomsg, i.VLANs},
		{object.HeaderOfNeighbor, i.Entries},
		{object.HeaderOfGroup, i.Groups},
		{object.HeaderOfQueue, i.Queues},
		{object.HeaderOfQueue, i.Classes},
		{object.HeaderOfRoute, i.Replaced},
	} {
		for _, m := range list.messages {
			if len(m) < list.header {
				return fmt.Errorf("a message of %d bytes is shorter than its header of %d", len(m), list.header)
			}
		}
	}
	if i.Others != nil {
		return i.Others.Check()
	}
	return nil
}

// Filters of link dumps (include/uapi/linux/rtnetlink.h).
const (
	skipStatistics = 1 << 3 // RTEXT_FILTER_SKIP_STATS
	eachVLAN       = 1 << 1 // RTEXT_FILTER_BRVLAN
)

// neighborHeader begins a request for neighbours; flags are NTF_*.
func neighborHeader(family, flags uint8) nl.NetlinkRequestData {
	header := make(raw, object.HeaderOfNeighbor)
	header[0], header[10] = family, flags
	return header
}

func groupHeader() nl.NetlinkRequestData {
	header := make(raw, object.HeaderOfGroup)
	header[0] = unix.AF_BRIDGE
	return header
}

// raw is a part of a request that is sent as it is.
type raw []byte

func (r raw) Len() int { return len(r) }

func (r raw) Serialize() []byte { return r }

// Take returns what the kernel has, and the settings of the devices that a change of an area
// reaches.
func Take(ctx context.Context, k Kernel, a Area) (*Image, error) {
	i := &Image{Settings: map[string]map[string]string{}}
	route := make(raw, object.HeaderOfRoute)
	for _, dump := range []struct {
		what string
		into *[]Message
		kind int
		data []nl.NetlinkRequestData
		keep func(Message) bool
	}{
		{
			"devices", &i.Links, unix.RTM_GETLINK,
			[]nl.NetlinkRequestData{nl.NewIfInfomsg(unix.AF_UNSPEC), object.Number(unix.IFLA_EXT_MASK, skipStatistics)},
			all,
		},
		{"addresses", &i.Addresses, unix.RTM_GETADDR, []nl.NetlinkRequestData{nl.NewIfAddrmsg(unix.AF_UNSPEC)}, object.IsLasting},
		{"next hops", &i.NextHops, object.GetNextHop, []nl.NetlinkRequestData{make(raw, object.HeaderOfNextHop)}, all},
		{"routes", &i.Routes, unix.RTM_GETROUTE, []nl.NetlinkRequestData{route}, object.IsNoCopy},
		{"rules", &i.Rules, unix.RTM_GETRULE, []nl.NetlinkRequestData{route}, all},
		{"neighbours", &i.Neighbors, unix.RTM_GETNEIGH, []nl.NetlinkRequestData{neighborHeader(unix.AF_UNSPEC, 0)}, object.IsStatic},
		{"proxies", &i.Neighbors, unix.RTM_GETNEIGH, []nl.NetlinkRequestData{neighborHeader(unix.AF_UNSPEC, unix.NTF_PROXY)}, all},
		{
			"VLANs of ports", &i.VLANs, unix.RTM_GETLINK,
			[]nl.NetlinkRequestData{nl.NewIfInfomsg(unix.AF_BRIDGE), object.Number(unix.IFLA_EXT_MASK, eachVLAN)},
			all,
		},
		{"entries of bridges", &i.Entries, unix.RTM_GETNEIGH, []nl.NetlinkRequestData{neighborHeader(unix.AF_BRIDGE, 0)}, object.IsStatic},
		{"groups of bridges", &i.Groups, object.GetGroup, []nl.NetlinkRequestData{groupHeader()}, all},
		{"queueing disciplines", &i.Queues, unix.RTM_GETQDISC, []nl.NetlinkRequestData{make(raw, object.HeaderOfQueue)}, object.IsByHandQueue},
	} {
		messages, err := k.Dump(ctx, dump.kind, dump.data...)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", dump.what, err)
		}
		for _, m := range messages {
			if dump.keep(m) {
				*dump.into = append(*dump.into, m)
			}
		}
	}
	i.Groups = object.EachGroup(i.Groups)
	if err := i.readQueues(ctx, k, a); err != nil {
		return nil, err
	}
	return i, i.readSettings(k, a)
}

func (i *Image) readSettings(k Kernel, a Area) error {
	for _, name := range slices.Concat(a.Reach(i), a.Under) {
		settings, err := k.Settings(name)
		if err != nil {
			return fmt.Errorf("read settings of %s: %w", name, err)
		}
		i.Settings[name] = settings
	}
	return nil
}

// ProgramRoutes returns the routes of programs, by a device and not by a next hop object: the
// kernel removes these when it hears that a device has no carrier.
func (i *Image) ProgramRoutes() []Message {
	return filtered(i.Routes, func(m Message) bool {
		return object.IsProgram(m[5]) && object.Routes().Attributes(m).Get(object.RouteNextHop) == nil
	})
}

// NoteSurvivors keeps which routes of programs, and which addresses, a later image still has.
func (i *Image) NoteSurvivors(later *Image) {
	have := canonical(object.Routes(), later.Routes)
	i.Survivors = filtered(i.ProgramRoutes(), func(m Message) bool { return have[object.Routes().Canonical(m)] })
	have = canonical(object.Addresses(), later.Addresses)
	i.Staying = filtered(i.Addresses, func(m Message) bool { return have[object.Addresses().Canonical(m)] })
}

// WithoutWithdrawn returns an image without the routes and addresses that have survived the
// change and are missing now: whoever added one has withdrawn it since.
func (i *Image) WithoutWithdrawn(now *Image) *Image {
	survived, have, part := canonical(object.Routes(), i.Survivors), canonical(object.Routes(), now.Routes), *i
	part.Survivors, part.Staying = nil, nil
	part.Routes = filtered(i.Routes, func(m Message) bool {
		key := object.Routes().Canonical(m)
		return !survived[key] || have[key]
	})
	stayed, held := canonical(object.Addresses(), i.Staying), byDevice(now.Addresses)
	part.Addresses = filtered(i.Addresses, func(m Message) bool {
		others := of(held[object.DeviceOf(m)], m[0])
		return !stayed[object.Addresses().Canonical(m)] || len(others) == 0 || prefixesOf(others)[object.PrefixOf(m)]
	})
	return &part
}

func all(Message) bool { return true }
