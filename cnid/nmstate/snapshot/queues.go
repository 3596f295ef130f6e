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
)

// Attributes of queueing disciplines (include/uapi/linux/rtnetlink.h and pkt_sched.h).
const (
	sizeTable    = 8  // TCA_STAB, shown without its content
	ingressBlock = 13 // TCA_INGRESS_BLOCK: filters that several devices share
	egressBlock  = 14 // TCA_EGRESS_BLOCK
	htbInit      = 2  // TCA_HTB_INIT, which begins with a version
	htbOffload   = 9  // TCA_HTB_OFFLOAD
	// TCA_FQ_CODEL_TARGET, _INTERVAL and _CE_THRESHOLD.
	codelTarget, codelInterval, codelThreshold = 1, 3, 7
	// ofDevice is the least parent of queueing disciplines of devices (TC_H_ROOT, TC_H_CLSACT).
	ofDevice = 0xfffffff0
	// filtersIn and filtersOut are the parents of filters of clsact (TC_H_CLSACT with
	// TC_H_MIN_INGRESS and with TC_H_MIN_EGRESS).
	filtersIn, filtersOut = 0xfffffff2, 0xfffffff3
)

// replayed are the kinds of queueing disciplines that are made again by what a dump has of
// them.
func replayed() []string {
	return []string{"bfifo", "clsact", "fq_codel", "htb", "ingress", "pfifo", "prio", "tbf"}
}

// queues are queueing disciplines, and classes those of their classes that somebody made.
func queues() class {
	return class{get: unix.RTM_GETQDISC, add: unix.RTM_NEWQDISC, create: exclusive, header: headerOfQueue, volatile: always(), settle: func(Message) {}}
}

func classes() class {
	c := queues()
	c.get, c.add = unix.RTM_GETTCLASS, unix.RTM_NEWTCLASS
	return c
}

// handleOf and parentOf return fields of struct tcmsg.
func handleOf(m Message) uint32 { return binary.NativeEndian.Uint32(m[8:]) }
func parentOf(m Message) uint32 { return binary.NativeEndian.Uint32(m[12:]) }

func kindOfQueue(m Message) string { return queues().attributes(m).Text(nl.TCA_KIND) }

// isByHandQueue reports whether somebody made a queueing discipline: those of the kernel have
// no handle.
func isByHandQueue(m Message) bool { return len(m) >= headerOfQueue && handleOf(m) != 0 }

// isByHandClass reports whether somebody made a class. Other kinds make classes by themselves.
func isByHandClass(m Message) bool { return len(m) >= headerOfQueue && kindOfQueue(m) == "htb" }

// readQueues reads the classes and filters of the devices that a change removes. The other
// devices keep theirs.
func (i *Image) readQueues(ctx context.Context, k Kernel, a Area) error {
	list, _ := linksOf(i)
	lost, asked := a.lost(list), map[uint32]bool{}
	for _, m := range i.Queues {
		index := deviceOf(m)
		if !lost[index] {
			continue
		}
		if !asked[index] {
			asked[index] = true
			found, err := k.Dump(ctx, unix.RTM_GETTCLASS, queueHeader(index, 0))
			if err != nil {
				return fmt.Errorf("list classes of queueing disciplines: %w", err)
			}
			i.Classes = append(i.Classes, filtered(messages(found), isByHandClass)...)
		}
		if err := i.readFilters(ctx, k, m); err != nil {
			return err
		}
	}
	return nil
}

// readFilters reads the filters of a queueing discipline and of its classes.
func (i *Image) readFilters(ctx context.Context, k Kernel, queue Message) error {
	parents := []uint32{handleOf(queue)}
	if kindOfQueue(queue) == "clsact" {
		parents = []uint32{filtersIn, filtersOut}
	}
	for _, m := range i.Classes {
		if deviceOf(m) == deviceOf(queue) && handleOf(m)>>16 == handleOf(queue)>>16 {
			parents = append(parents, handleOf(m))
		}
	}
	for _, parent := range parents {
		found, err := k.Dump(ctx, unix.RTM_GETTFILTER, queueHeader(deviceOf(queue), parent))
		if err != nil {
			return fmt.Errorf("list filters of queueing disciplines: %w", err)
		}
		i.Filters = append(i.Filters, filtered(messages(found), func(m Message) bool { return len(m) >= headerOfQueue })...)
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
	header := make(raw, headerOfQueue)
	binary.NativeEndian.PutUint32(header[4:], index)
	binary.NativeEndian.PutUint32(header[12:], parent)
	return header
}

// unkeptQueue returns what no request makes again of a queueing discipline, "" for nothing.
func unkeptQueue(m Message) string {
	kind, attributes := kindOfQueue(m), queues().attributes(m)
	switch {
	case !slices.Contains(replayed(), kind), attributes.Get(nl.TCA_OPTIONS).Get(htbOffload) != nil && kind == "htb":
		return fmt.Sprintf("the queueing discipline %s (tc-%s(8))", kind, kind)
	case attributes.Get(sizeTable) != nil:
		return fmt.Sprintf("the size table of the queueing discipline %s (tc-stab(8))", kind)
	case attributes.Get(ingressBlock) != nil, attributes.Get(egressBlock) != nil:
		return fmt.Sprintf("the block of filters of the queueing discipline %s (tc(8))", kind)
	}
	return ""
}

// restoreQueues gives devices that are made again their queueing disciplines and classes:
// those of devices first, then classes, then what is in a class.
func (p *planner) restoreQueues(before, now *Image) {
	list, _ := linksOf(before)
	lost := p.area.lost(list)
	have := map[string]bool{}
	for _, m := range slices.Concat(now.Queues, now.Classes) {
		have[placeOfQueue(m)] = true
	}
	missing := func(m Message) bool {
		return lost[deviceOf(m)] && p.has(deviceOf(m)) && !have[placeOfQueue(m)]
	}
	isOuter := func(m Message) bool { return parentOf(m) >= ofDevice }
	isInner := func(m Message) bool { return !isOuter(m) }
	disciplines := filtered(before.Queues, missing)
	p.addQueues("queueing discipline", queues(), filtered(disciplines, isOuter))
	p.addQueues("class", classes(), parentsFirst(filtered(before.Classes, missing)))
	p.addQueues("queueing discipline", queues(), filtered(disciplines, isInner))
}

func (p *planner) addQueues(what string, c class, list []Message) {
	for _, m := range list {
		text := fmt.Sprintf("add the %s %s %x to %s", what, kindOfQueue(m), handleOf(m), p.deviceName(m))
		p.request(Request{What: text, Kind: c.add, Flags: c.create, Body: queueToAdd(m)})
	}
}

// placeOfQueue tells a queueing discipline or class from others: by device, handle and parent.
func placeOfQueue(m Message) string { return string(m[4:16]) }

// parentsFirst returns classes in the order in which the kernel takes them.
func parentsFirst(list []Message) (ordered []Message) {
	for len(list) > 0 {
		waiting := map[uint32]bool{}
		for _, m := range list {
			waiting[handleOf(m)] = true
		}
		isNext := func(m Message) bool { return !waiting[parentOf(m)] }
		next := filtered(list, isNext)
		if next == nil {
			return append(ordered, list...) // no tree: the kernel has none of that kind
		}
		ordered, list = append(ordered, next...), slices.DeleteFunc(list, isNext)
	}
	return ordered
}

// queueToAdd returns a queueing discipline or class as a request has it.
func queueToAdd(m Message) Message {
	out, attributes := slices.Clone(m[:headerOfQueue]), queues().attributes(m)
	clear(out[16:]) // tcm_info
	out = appendAttribute(out, nl.TCA_KIND, attributes.Get(nl.TCA_KIND))
	options := slices.Clone(attributes.Get(nl.TCA_OPTIONS))
	switch kindOfQueue(m) {
	case "htb": // It shows its version with one of a library, and wants the first alone.
		if version := options.Get(htbInit); len(version) >= 4 {
			binary.NativeEndian.PutUint32(version, binary.NativeEndian.Uint32(version)>>16)
		}
	case "fq_codel": // It keeps times in units of 1.024 us, and rounds down at each conversion.
		for _, kind := range []uint16{codelTarget, codelInterval, codelThreshold} {
			if us := options.Get(kind); len(us) == 4 {
				binary.NativeEndian.PutUint32(us, binary.NativeEndian.Uint32(us)+1)
			}
		}
	}
	return appendAttribute(out, nl.TCA_OPTIONS, options)
}
