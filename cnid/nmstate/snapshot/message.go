// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// Message is one object of the kernel as a dump of rtnetlink(7) has it, without the header
// of netlink: the header of its family, and attributes.
type Message []byte

// class is a kind of objects. Numbers are those of include/uapi/linux/rtnetlink.h.
type class struct {
	// get, add and remove are types of requests, and create has the flags of add.
	get, add, remove, create int
	// header is the size of the family's header in bytes.
	header int
	// volatile are the attributes that the kernel changes by itself, in an object with some
	// attributes.
	volatile func(attribute.List) []uint16
	// settle clears what else the kernel changes by itself, in a copy.
	settle func(Message)
}

const (
	headerOfAddress  = unix.SizeofIfAddrmsg
	headerOfRoute    = unix.SizeofRtMsg
	headerOfNextHop  = 8
	headerOfNeighbor = unix.SizeofNdMsg
	headerOfQueue    = nl.SizeofTcMsg
)

// Numbers of include/uapi/linux/nexthop.h.
const (
	newNextHop = 104 // RTM_NEWNEXTHOP
	delNextHop = 105
	getNextHop = 106
	nextHopID  = 1 // NHA_ID
	nextHopOut = 5 // NHA_OIF
	nextHopSet = 2 // NHA_GROUP
	// nextHopBuckets is NHA_RES_GROUP, and unbalanced a time of the past in it
	// (NHA_RES_GROUP_UNBALANCED_TIME).
	nextHopBuckets = 12
	unbalanced     = 4
)

const exclusive = unix.NLM_F_CREATE | unix.NLM_F_EXCL

func addresses() class {
	return class{
		unix.RTM_GETADDR, unix.RTM_NEWADDR, unix.RTM_DELADDR, unix.NLM_F_CREATE | unix.NLM_F_REPLACE, headerOfAddress,
		always(unix.IFA_CACHEINFO),
		settleAddress,
	}
}

func routes() class {
	return class{
		unix.RTM_GETROUTE, unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.NLM_F_CREATE | unix.NLM_F_APPEND, headerOfRoute,
		volatileOfRoute,
		settleRoute,
	}
}

func nextHops() class {
	return class{getNextHop, newNextHop, delNextHop, unix.NLM_F_CREATE | unix.NLM_F_REPLACE, headerOfNextHop, always(nextHopOptions), settleNextHop}
}

func rules() class {
	return class{unix.RTM_GETRULE, unix.RTM_NEWRULE, unix.RTM_DELRULE, exclusive, headerOfRoute, always(), settleRule}
}

func neighbors() class {
	return class{
		unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH, unix.NLM_F_CREATE | unix.NLM_F_REPLACE, headerOfNeighbor,
		always(unix.NDA_CACHEINFO, unix.NDA_PROBES),
		func(Message) {},
	}
}

// attributes are those after the header.
func (c class) attributes(m Message) attribute.List {
	if len(m) < c.header {
		return nil
	}
	return attribute.List(m[c.header:])
}

// canonical returns the bytes by which two messages of one object are compared: without
// what changes by itself, and with the attributes in order.
func (c class) canonical(m Message) string {
	m = slices.Clone(m)
	c.settle(m)
	return string(m[:c.header]) + string(c.lasting(m))
}

// lasting returns the attributes of a settled message that the kernel does not change.
func (c class) lasting(m Message) []byte {
	return ordered(c.attributes(m), c.volatile(c.attributes(m)))
}

func always(kinds ...uint16) func(attribute.List) []uint16 {
	return func(attribute.List) []uint16 { return kinds }
}

// volatileOfRoute has the gateways of a route by a next hop object: the object has them
// itself.
func volatileOfRoute(of attribute.List) []uint16 {
	if of.Get(routeNextHop) == nil {
		return []uint16{unix.RTA_CACHEINFO}
	}
	return []uint16{unix.RTA_CACHEINFO, unix.RTA_OIF, unix.RTA_GATEWAY, routeVia, unix.RTA_MULTIPATH}
}

type pair struct {
	kind    uint16
	content []byte
}

// ordered returns attributes in the order of their kinds, without some.
func ordered(list attribute.List, without []uint16) []byte {
	var all []pair
	for kind, content := range list.All() {
		if !slices.Contains(without, kind) {
			all = append(all, pair{kind, content})
		}
	}
	slices.SortStableFunc(all, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), bytes.Compare(a.content, b.content))
	})
	var out []byte
	for _, p := range all {
		out = appendAttribute(out, p.kind, p.content)
	}
	return out
}

func appendAttribute(to []byte, kind uint16, content []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, uint16(unix.SizeofRtAttr+len(content)))
	to = binary.NativeEndian.AppendUint16(to, kind)
	to = append(to, content...)
	for len(to)%unix.NLA_ALIGNTO != 0 {
		to = append(to, 0)
	}
	return to
}

func number(kind uint16, value uint32) *nl.RtAttr {
	return nl.NewRtAttr(int(kind), binary.NativeEndian.AppendUint32(nil, value))
}

// Flags of addresses that the kernel sets or clears by itself (include/uapi/linux/if_addr.h).
const stateOfAddress = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED | unix.IFA_F_SECONDARY | unix.IFA_F_OPTIMISTIC

func settleAddress(m Message) {
	const flags = 2
	m[flags] &^= stateOfAddress
	if content := addresses().attributes(m).Get(unix.IFA_FLAGS); len(content) == 4 {
		binary.NativeEndian.PutUint32(content, binary.NativeEndian.Uint32(content)&^stateOfAddress)
	}
}

// Flags of next hops that are no state of the device (include/uapi/linux/rtnetlink.h).
const settingsOfHop = unix.RTNH_F_ONLINK | unix.RTNH_F_PERVASIVE

func settleRoute(m Message) {
	const flags = 8
	binary.NativeEndian.PutUint32(m[flags:], binary.NativeEndian.Uint32(m[flags:])&settingsOfHop)
	for hop := range hopsOf(routes().attributes(m).Get(unix.RTA_MULTIPATH)) {
		hop[2] &= settingsOfHop
	}
}

// hopsOf yields each struct rtnexthop of a route with several next hops.
func hopsOf(list []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(list) >= unix.SizeofRtNexthop {
			length := int(binary.NativeEndian.Uint16(list))
			if length < unix.SizeofRtNexthop || length > len(list) || !yield(list[:length]) {
				return
			}
			list = list[min((length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(list)):]
		}
	}
}

func settleNextHop(m Message) {
	const flags = 4
	binary.NativeEndian.PutUint32(m[flags:], binary.NativeEndian.Uint32(m[flags:])&settingsOfHop)
	clear(nextHops().attributes(m).Get(nextHopBuckets).Get(unbalanced))
}

func settleRule(m Message) {
	const flags, detached = 8, 0x4 | 0x8 | 0x10 // FIB_RULE_UNRESOLVED, _IIF_DETACHED, _OIF_DETACHED
	binary.NativeEndian.PutUint32(m[flags:], binary.NativeEndian.Uint32(m[flags:])&^uint32(detached))
}
