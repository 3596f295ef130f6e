// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
)

// renumbered returns an image with the indexes that its devices have now. A device that is
// made again has the same index, unless that is taken meanwhile; then it has the same name.
// One of the change has another index, and does not count.
func (i *Image) renumbered(now *Image, a Area) *Image {
	_, byIndex := linksOf(now)
	byName := map[string]object.Link{}
	for _, l := range byIndex {
		byName[l.Name] = l
	}
	moved := indexes{}
	was, _ := linksOf(i)
	for _, l := range was {
		is, there := byName[l.Name]
		other, taken := byIndex[l.Index]
		if taken && other.Name == l.Name || !taken && slices.Contains(a.Made, l.Name) {
			continue
		}
		if there && is.Driver == l.Driver {
			moved[l.Index] = is.Index
		}
	}
	if len(moved) == 0 {
		return i
	}
	return i.moved(moved)
}

// indexes has the new indexes of devices.
type indexes map[uint32]uint32

// at replaces an index in a message.
func (to indexes) at(field []byte) {
	if len(field) < 4 {
		return
	}
	if index, ok := to[binary.NativeEndian.Uint32(field)]; ok {
		binary.NativeEndian.PutUint32(field, index)
	}
}

// moved returns a copy with other indexes.
func (i *Image) moved(to indexes) *Image {
	part := *i
	part.Links, part.VLANs = each(i.Links, to.link), each(i.VLANs, to.device)
	part.Addresses = each(i.Addresses, to.device)
	part.Queues, part.Classes = each(i.Queues, to.device), each(i.Classes, to.device)
	part.Neighbors, part.Entries = each(i.Neighbors, to.neighbor), each(i.Entries, to.neighbor)
	part.Groups = each(i.Groups, func(m Message) {
		to.device(m)
		to.at(object.PortOfGroup(m))
	})
	part.NextHops = each(i.NextHops, func(m Message) { to.at(object.NextHops().Attributes(m).Get(object.NextHopOut)) })
	part.Routes, part.Replaced = each(i.Routes, to.route), each(i.Replaced, to.route)
	if i.Others != nil {
		part.Others = i.Others.moved(to)
	}
	return &part
}

// each returns a changed copy of each message.
func each(list []Message, change func(Message)) []Message {
	out := make([]Message, 0, len(list))
	for _, m := range list {
		m = slices.Clone(m)
		change(m)
		out = append(out, m)
	}
	return out
}

func (to indexes) device(m Message) { to.at(m[4:]) }

func (to indexes) neighbor(m Message) {
	to.device(m)
	to.at(object.Neighbors().Attributes(m).Get(unix.NDA_MASTER))
}

func (to indexes) link(m Message) {
	l := object.LinkOf(m)
	to.device(m)
	to.at(l.Get(unix.IFLA_MASTER))
	switch {
	case l.Driver == "vxlan":
		to.at(l.Data.Get(object.VXLANBase))
	case l.Base != 0:
		to.at(l.Get(unix.IFLA_LINK))
	}
}

func (to indexes) route(m Message) {
	to.at(object.Routes().Attributes(m).Get(unix.RTA_OIF))
	for hop := range object.HopsOf(object.Routes().Attributes(m).Get(unix.RTA_MULTIPATH)) {
		to.at(hop[4:])
	}
}

// Indexes returns the indexes of an image's devices by their names.
func (i *Image) Indexes() map[string]uint32 {
	indexes := map[string]uint32{}
	list, _ := linksOf(i)
	for _, l := range list {
		indexes[l.Name] = l.Index
	}
	return indexes
}
