// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
)

// readQueues reads the classes and filters of the devices that a change removes. The other
// devices keep theirs.
func (i *Image) readQueues(ctx context.Context, k Kernel, a Area) error {
	list, _ := linksOf(i)
	lost, asked := a.lost(list), map[uint32]bool{}
	for _, m := range i.Queues {
		index := object.DeviceOf(m)
		if !lost[index] {
			continue
		}
		if !asked[index] {
			asked[index] = true
			found, err := k.Dump(ctx, unix.RTM_GETTCLASS, queueHeader(index, 0))
			if err != nil {
				return fmt.Errorf("list classes of queueing disciplines: %w", err)
			}
			i.Classes = append(i.Classes, filtered(messages(found), object.IsByHandClass)...)
		}
		if err := i.readFilters(ctx, k, m); err != nil {
			return err
		}
	}
	return nil
}

// readFilters reads the filters of a queueing discipline and of its classes.
func (i *Image) readFilters(ctx context.Context, k Kernel, queue Message) error {
	parents := []uint32{object.HandleOf(queue)}
	if object.KindOfQueue(queue) == "clsact" {
		parents = []uint32{object.FiltersIn, object.FiltersOut}
	}
	for _, m := range i.Classes {
		if object.DeviceOf(m) == object.DeviceOf(queue) && object.HandleOf(m)>>16 == object.HandleOf(queue)>>16 {
			parents = append(parents, object.HandleOf(m))
		}
	}
	for _, parent := range parents {
		found, err := k.Dump(ctx, unix.RTM_GETTFILTER, queueHeader(object.DeviceOf(queue), parent))
		if err != nil {
			return fmt.Errorf("list filters of queueing disciplines: %w", err)
		}
		i.Filters = append(
			i.Filters,
			filtered(messages(found), func(m Message) bool { return len(m) >= object.HeaderOfQueue })...)
	}
	return nil
}

func messages(list [][]byte) (all []Message) {
	for _, m := range list {
		all = append(all, m)
	}
	return all
}

func queueHeader(index, parent uint32) nl.NetlinkRequestData {
	header := make(raw, object.HeaderOfQueue)
	binary.NativeEndian.PutUint32(header[4:], index)
	binary.NativeEndian.PutUint32(header[12:], parent)
	return header
}

// restoreQueues gives devices that are made again their queueing disciplines and classes: first
// the disciplines of devices, then classes, then the disciplines of classes.
func (p *planner) restoreQueues(before, now *Image) {
	list, _ := linksOf(before)
	lost := p.area.lost(list)
	have := map[string]bool{}
	for _, m := range slices.Concat(now.Queues, now.Classes) {
		have[object.PlaceOfQueue(m)] = true
	}
	missing := func(m Message) bool {
		return lost[object.DeviceOf(m)] && p.has(object.DeviceOf(m)) && !have[object.PlaceOfQueue(m)]
	}
	isOuter := func(m Message) bool { return object.ParentOf(m) >= object.OfDevice }
	isInner := func(m Message) bool { return !isOuter(m) }
	disciplines := filtered(before.Queues, missing)
	p.addQueues("queueing discipline", object.Queues(), filtered(disciplines, isOuter))
	p.addQueues("class", object.Classes(), parentsFirst(filtered(before.Classes, missing)))
	p.addQueues("queueing discipline", object.Queues(), filtered(disciplines, isInner))
}

func (p *planner) addQueues(what string, c object.Class, list []Message) {
	for _, m := range list {
		text := fmt.Sprintf("add the %s %s %x to %s", what, object.KindOfQueue(m), object.HandleOf(m), p.deviceName(m))
		p.request(Request{What: text, Kind: c.Add, Flags: c.Create, Body: object.QueueToAdd(m)})
	}
}

// parentsFirst returns classes in the kernel's order.
func parentsFirst(list []Message) (ordered []Message) {
	for len(list) > 0 {
		waiting := map[uint32]bool{}
		for _, m := range list {
			waiting[object.HandleOf(m)] = true
		}
		isNext := func(m Message) bool { return !waiting[object.ParentOf(m)] }
		next := filtered(list, isNext)
		if next == nil {
			return append(ordered, list...) // no tree: the kernel has none of that kind
		}
		ordered, list = append(ordered, next...), slices.DeleteFunc(list, isNext)
	}
	return ordered
}
