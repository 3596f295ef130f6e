// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

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

// Class is a kind of objects. Its numbers come from include/uapi/linux/rtnetlink.h.
type Class struct {
	// Get, Add and Remove are types of requests, and Create has the flags of Add.
	Get, Add, Remove, Create int
	// Header is the size of the family's header in bytes.
	Header int
	// Volatile returns the attributes that the kernel changes by itself, in an object with some
	// attributes.
	Volatile func(attribute.List) []uint16
	// Settle clears what else the kernel changes by itself, in a copy.
	Settle func(Message)
}

// Sizes of the headers of messages in bytes.
const (
	HeaderOfAddress  = unix.SizeofIfAddrmsg
	HeaderOfRoute    = unix.SizeofRtMsg
	HeaderOfNextHop  = 8
	HeaderOfNeighbor = unix.SizeofNdMsg
	HeaderOfQueue    = nl.SizeofTcMsg
)

// Numbers of include/uapi/linux/nexthop.h.
const (
	newNextHop = 104 // RTM_NEWNEXTHOP
	delNextHop = 105
	GetNextHop = 106
	NextHopID  = 1 // NHA_ID
	NextHopOut = 5 // NHA_OIF
	NextHopSet = 2 // NHA_GROUP
	// nextHopBuckets is NHA_RES_GROUP, and unbalanced a time of the past in it
	// (NHA_RES_GROUP_UNBALANCED_TIME).
	nextHopBuckets = 12
	unbalanced     = 4
)

// Exclusive has the flags of a request for an object that does not exist.
const Exclusive = unix.NLM_F_CREATE | unix.NLM_F_EXCL

// Addresses is the class of addresses.
func Addresses() Class {
	return Class{
		unix.RTM_GETADDR, unix.RTM_NEWADDR, unix.RTM_DELADDR, unix.NLM_F_CREATE | unix.NLM_F_REPLACE, HeaderOfAddress,
		always(unix.IFA_CACHEINFO),
		settleAddress,
	}
}

// Routes is the class of routes.
func Routes() Class {
	return Class{
		unix.RTM_GETROUTE, unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.NLM_F_CREATE | unix.NLM_F_APPEND, HeaderOfRoute,
		volatileOfRoute,
		settleRoute,
	}
}

// NextHops is the class of next hop objects.
func NextHops() Class {
	return Class{
		GetNextHop,
		newNextHop,
		delNextHop,
		unix.NLM_F_CREATE | unix.NLM_F_REPLACE,
		HeaderOfNextHop,
		always(nextHopOptions),
		settleNextHop,
	}
}

// Rules is the class of routing rules.
func Rules() Class {
	return Class{unix.RTM_GETRULE, unix.RTM_NEWRULE, unix.RTM_DELRULE, Exclusive, HeaderOfRoute, always(), settleRule}
}

// Neighbors is the class of neighbours, and of entries of bridges.
func Neighbors() Class {
	return Class{
		unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH, unix.NLM_F_CREATE | unix.NLM_F_REPLACE, HeaderOfNeighbor,
		always(unix.NDA_CACHEINFO, unix.NDA_PROBES),
		func(Message) {},
	}
}

// Attributes are those after the header.
func (c Class) Attributes(m Message) attribute.List {
	if len(m) < c.Header {
		return nil
	}
	return attribute.List(m[c.Header:])
}

// Canonical returns the bytes for comparisons of two messages of one object: without the
// attributes that change by themselves, and with the attributes in order.
func (c Class) Canonical(m Message) string {
	m = slices.Clone(m)
	c.Settle(m)
	return string(m[:c.Header]) + string(c.Lasting(m))
}

// Lasting returns the attributes of a settled message that the kernel does not change.
func (c Class) Lasting(m Message) []byte {
	return ordered(c.Attributes(m), c.Volatile(c.Attributes(m)))
}

func always(kinds ...uint16) func(attribute.List) []uint16 {
	return func(attribute.List) []uint16 { return kinds }
}

// volatileOfRoute has the gateways of a route by a next hop object: the object has them
// itself.
func volatileOfRoute(of attribute.List) []uint16 {
	if of.Get(RouteNextHop) == nil {
		return []uint16{unix.RTA_CACHEINFO}
	}
	return []uint16{unix.RTA_CACHEINFO, unix.RTA_OIF, unix.RTA_GATEWAY, routeVia, unix.RTA_MULTIPATH}
}

// Pair is an attribute.
type Pair struct {
	Kind    uint16
	Content []byte
}

// ordered returns attributes in the order of their kinds, without some.
func ordered(list attribute.List, without []uint16) []byte {
	var all []Pair
	for kind, content := range list.All() {
		if !slices.Contains(without, kind) {
			all = append(all, Pair{kind, content})
		}
	}
	slices.SortStableFunc(all, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), bytes.Compare(a.Content, b.Content))
	})
	var out []byte
	for _, p := range all {
		out = AppendAttribute(out, p.Kind, p.Content)
	}
	return out
}

// AppendAttribute adds an attribute to a message.
func AppendAttribute(to []byte, kind uint16, content []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, uint16(unix.SizeofRtAttr+len(content)))
	to = binary.NativeEndian.AppendUint16(to, kind)
	to = append(to, content...)
	for len(to)%unix.NLA_ALIGNTO != 0 {
		to = append(to, 0)
	}
	return to
}

// Number makes an attribute of 32 bits.
func Number(kind uint16, value uint32) *nl.RtAttr {
	return nl.NewRtAttr(int(kind), binary.NativeEndian.AppendUint32(nil, value))
}

// Flags of addresses that the kernel sets or clears by itself (include/uapi/linux/if_addr.h).
const stateOfAddress = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED |
	unix.IFA_F_SECONDARY | unix.IFA_F_OPTIMISTIC

func settleAddress(m Message) {
	const flags = 2
	m[flags] &^= stateOfAddress
	if content := Addresses().Attributes(m).Get(unix.IFA_FLAGS); len(content) == 4 {
		binary.NativeEndian.PutUint32(content, binary.NativeEndian.Uint32(content)&^stateOfAddress)
	}
}

// Flags of next hops that do not depend on the device's state (include/uapi/linux/rtnetlink.h).
const settingsOfHop = unix.RTNH_F_ONLINK | unix.RTNH_F_PERVASIVE

func settleRoute(m Message) {
	const flags = 8
	binary.NativeEndian.PutUint32(m[flags:], binary.NativeEndian.Uint32(m[flags:])&settingsOfHop)
	for hop := range HopsOf(Routes().Attributes(m).Get(unix.RTA_MULTIPATH)) {
		hop[2] &= settingsOfHop
	}
}

// HopsOf yields each struct rtnexthop of a route with several next hops.
func HopsOf(list []byte) func(func([]byte) bool) {
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
	clear(NextHops().Attributes(m).Get(nextHopBuckets).Get(unbalanced))
}

func settleRule(m Message) {
	const flags, detached = 8, 0x4 | 0x8 | 0x10 // FIB_RULE_UNRESOLVED, _IIF_DETACHED, _OIF_DETACHED
	binary.NativeEndian.PutUint32(m[flags:], binary.NativeEndian.Uint32(m[flags:])&^uint32(detached))
}
