// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
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
	// OfDevice is the least parent of queueing disciplines of devices (TC_H_ROOT, TC_H_CLSACT).
	OfDevice = 0xfffffff0
	// FiltersIn and FiltersOut are the parents of filters of clsact (TC_H_CLSACT with
	// TC_H_MIN_INGRESS and with TC_H_MIN_EGRESS).
	FiltersIn  = 0xfffffff2
	FiltersOut = 0xfffffff3
)

// replayed are the kinds of queueing disciplines that are made again by what a dump has of
// them.
func replayed() []string {
	return []string{"bfifo", "clsact", "fq_codel", "htb", "ingress", "pfifo", "prio", "tbf"}
}

// Queues is the class of queueing disciplines.
func Queues() Class {
	return Class{
		Get:      unix.RTM_GETQDISC,
		Add:      unix.RTM_NEWQDISC,
		Create:   Exclusive,
		Header:   HeaderOfQueue,
		Volatile: always(),
		Settle:   func(Message) {},
	}
}

// Classes is the class of the classes of queueing disciplines.
func Classes() Class {
	c := Queues()
	c.Get, c.Add = unix.RTM_GETTCLASS, unix.RTM_NEWTCLASS
	return c
}

// HandleOf returns the handle of a queueing discipline or a class (struct tcmsg).
func HandleOf(m Message) uint32 { return binary.NativeEndian.Uint32(m[8:]) }

// ParentOf returns the parent of a queueing discipline or a class.
func ParentOf(m Message) uint32 { return binary.NativeEndian.Uint32(m[12:]) }

// KindOfQueue returns the kind of a queueing discipline, a class or a filter.
func KindOfQueue(m Message) string { return Queues().Attributes(m).Text(nl.TCA_KIND) }

// IsByHandQueue reports whether a program made a queueing discipline: the kernel's own ones lack
// a handle.
func IsByHandQueue(m Message) bool { return len(m) >= HeaderOfQueue && HandleOf(m) != 0 }

// IsByHandClass reports whether somebody made a class. Other kinds make classes by themselves.
func IsByHandClass(m Message) bool { return len(m) >= HeaderOfQueue && KindOfQueue(m) == "htb" }

// UnkeptQueue returns what no request makes again of a queueing discipline, "" for nothing.
func UnkeptQueue(m Message) string {
	kind, attributes := KindOfQueue(m), Queues().Attributes(m)
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

// PlaceOfQueue tells a queueing discipline or class from others: by device, handle and parent.
func PlaceOfQueue(m Message) string { return string(m[4:16]) }

// QueueToAdd returns a queueing discipline or class as a request has it.
func QueueToAdd(m Message) Message {
	out, attributes := slices.Clone(m[:HeaderOfQueue]), Queues().Attributes(m)
	clear(out[16:]) // tcm_info
	out = AppendAttribute(out, nl.TCA_KIND, attributes.Get(nl.TCA_KIND))
	options := slices.Clone(attributes.Get(nl.TCA_OPTIONS))
	switch KindOfQueue(m) {
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
	return AppendAttribute(out, nl.TCA_OPTIONS, options)
}
