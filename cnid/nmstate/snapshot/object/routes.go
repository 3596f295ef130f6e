// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// Destination is where a route leads to, and its table.
type Destination struct {
	Prefix netip.Prefix
	Table  uint32
}

// GatewayOf returns the gateway of a next hop, the zero Addr without one.
func GatewayOf(hop attribute.List) netip.Addr {
	const family = 2 // of struct rtvia
	if via := hop.Get(routeVia); len(via) > family {
		gateway, _ := netip.AddrFromSlice(via[family:])
		return gateway
	}
	return hop.Address(unix.RTA_GATEWAY)
}

// OwnHop returns a route of the change with one of the next hops of another one.
func OwnHop(m Message, hop []byte) Message {
	out := loneHop(m, hop)
	out[5] = unix.RTPROT_STATIC
	return out
}

// WithHops returns a route with some of its next hops, nil without any.
func WithHops(m Message, hops [][]byte) Message {
	switch len(hops) {
	case 0:
		return nil
	case 1:
		return loneHop(m, hops[0])
	}
	c := Routes()
	out := append(slices.Clone(m[:c.Header]), ordered(c.Attributes(m), []uint16{unix.RTA_MULTIPATH})...)
	return AppendAttribute(out, unix.RTA_MULTIPATH, slices.Concat(hops...))
}

// loneHop returns a route with one of its next hops.
func loneHop(m Message, hop []byte) Message {
	const flags, flagsOfHop = 8, 2
	c := Routes()
	out := slices.Clone(m[:c.Header])
	binary.NativeEndian.PutUint32(out[flags:], uint32(hop[flagsOfHop]&settingsOfHop))
	out = append(out, ordered(c.Attributes(m), []uint16{unix.RTA_MULTIPATH, unix.RTA_CACHEINFO})...)
	out = AppendAttribute(out, unix.RTA_OIF, hop[4:unix.SizeofRtNexthop])
	return append(out, hop[unix.SizeofRtNexthop:]...)
}

// Slot is a place of routes of IPv4. The first route of the slot is used.
type Slot struct {
	Destination
	tos      byte
	priority uint32
}

// SlotOf returns the slot of a route.
func SlotOf(m Message) Slot {
	return Slot{DestinationOf(m), m[3], Routes().Attributes(m).Value(unix.RTA_PRIORITY)}
}

// HasOrder reports whether the order of a route among the routes of its slot matters.
func HasOrder(m Message) bool { return m[0] == unix.AF_INET && IsWritten(m) }

// IsWritten reports whether a route has a type that programs write. The kernel makes those to
// its own addresses, and to groups, by itself.
func IsWritten(m Message) bool {
	switch m[7] {
	case unix.RTN_UNICAST, unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_THROW:
		return true
	default:
		return false
	}
}

// IsKernels reports whether the kernel makes a route by itself with an address. Somebody else
// can write the same protocol: such a route is added if it does not come by itself.
func IsKernels(m Message) bool { return m[5] == unix.RTPROT_KERNEL }

// Rank orders routes so that the networks of gateways come before the routes through them.
func Rank(m Message) int {
	attributes := Routes().Attributes(m)
	if attributes.Get(unix.RTA_GATEWAY) == nil && attributes.Get(routeVia) == nil &&
		attributes.Get(unix.RTA_MULTIPATH) == nil &&
		attributes.Get(RouteNextHop) == nil {
		return 0
	}
	return 1
}

// Attributes of routes that the library lacks (include/uapi/linux/rtnetlink.h).
const (
	routeVia     = 18 // RTA_VIA
	RouteExpires = 23 // RTA_EXPIRES
	RouteNextHop = 30 // RTA_NH_ID
	// nextHopOptions is NHA_OP_FLAGS, which requests for dumps have.
	nextHopOptions = 14
)

// Ticks is the number of the kernel's ticks for user space in a second (USER_HZ).
const Ticks = 100

// TicksOf returns the lifetime in a route (struct rta_cacheinfo), nil without one.
func TicksOf(m Message) []byte {
	const expires = 8
	info := Routes().Attributes(m).Get(unix.RTA_CACHEINFO)
	if len(info) < expires+4 {
		return nil
	}
	return info[expires : expires+4]
}

func (d Destination) String() string { return fmt.Sprintf("%s of table %d", d.Prefix, d.Table) }

// DestinationOf returns the destination of a route.
func DestinationOf(m Message) Destination {
	attributes := Routes().Attributes(m)
	ip := attributes.Address(unix.RTA_DST)
	if !ip.IsValid() {
		ip = netip.IPv6Unspecified()
		if m[0] == unix.AF_INET {
			ip = netip.IPv4Unspecified()
		}
	}
	return Destination{netip.PrefixFrom(ip, int(m[1])), attributes.Value(unix.RTA_TABLE)}
}

// IsProgram reports whether routes of a protocol come from a program that goes on meanwhile.
func IsProgram(protocol byte) bool {
	return protocol != unix.RTPROT_KERNEL && protocol != unix.RTPROT_BOOT && protocol != unix.RTPROT_STATIC
}

// ProlongRoute is prolongAddress for a route.
func ProlongRoute(m Message, by time.Duration) {
	if m[0] != unix.AF_INET6 {
		return
	}
	if left := TicksOf(m); left != nil && binary.NativeEndian.Uint32(left) != 0 {
		binary.NativeEndian.PutUint32(left, binary.NativeEndian.Uint32(left)+Ticks*InSeconds(by))
	}
}

// IsNoCopy reports whether a route is in a table, and no entry of a cache. Routes of multicast
// (RTNL_FAMILY_IPMR) belong to the daemon with the socket, and have counters.
func IsNoCopy(m Message) bool {
	return len(m) >= HeaderOfRoute && m[9]&(unix.RTM_F_CLONED>>8) == 0 &&
		(m[0] == unix.AF_INET || m[0] == unix.AF_INET6 || m[0] == unix.AF_MPLS)
}
