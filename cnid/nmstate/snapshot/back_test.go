// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
)

// device returns a message of a device that is up; the driver "" means hardware.
func device(index uint32, name, driver string, base uint32) Message {
	b := object.About(index)
	binary.NativeEndian.PutUint32(b.Body[8:], unix.IFF_UP)
	b.Add(unix.IFLA_IFNAME, append([]byte(name), 0)).Add(unix.IFLA_MTU, native(1500))
	if base != 0 {
		b.Add(unix.IFLA_LINK, native(base))
	}
	if driver != "" {
		b.Info(nl.IFLA_INFO_KIND, driver, nl.IFLA_INFO_DATA, nil)
	}
	return b.Body
}

// infinite is a lifetime without an end.
const infinite = math.MaxUint32

func native(number uint32) []byte { return binary.NativeEndian.AppendUint32(nil, number) }

func addressOn(index uint32, text string, lifetime uint32) Message {
	prefix := netip.MustParsePrefix(text)
	m := make(Message, object.HeaderOfAddress)
	m[0], m[1] = unix.AF_INET, byte(prefix.Bits())
	binary.NativeEndian.PutUint32(m[4:], index)
	m = object.AppendAttribute(m, unix.IFA_LOCAL, prefix.Addr().AsSlice())
	return object.AppendAttribute(m, unix.IFA_CACHEINFO, slices.Concat(native(lifetime), native(lifetime), native(0), native(0)))
}

// routeTo returns a route by device 5.
func routeTo(text string, protocol byte) Message {
	prefix := netip.MustParsePrefix(text)
	m := make(Message, object.HeaderOfRoute)
	m[0], m[1], m[4], m[5], m[7] = unix.AF_INET, byte(prefix.Bits()), unix.RT_TABLE_MAIN, protocol, unix.RTN_UNICAST
	m = object.AppendAttribute(m, unix.RTA_TABLE, native(unix.RT_TABLE_MAIN))
	m = object.AppendAttribute(m, unix.RTA_DST, prefix.Addr().AsSlice())
	return object.AppendAttribute(m, unix.RTA_OIF, native(5))
}

func TestRestore_Requests_LeadBackToSnapshot(t *testing.T) {
	eth1, vlan := device(2, "eth1", "", 0), device(5, "eth1.10", "vlan", 2)
	before := &Image{
		Links: []Message{eth1, vlan}, Addresses: []Message{addressOn(5, "192.0.2.1/24", infinite)},
		Routes: []Message{routeTo("198.51.100.0/24", unix.RTPROT_BOOT), routeTo("203.0.113.0/24", 12)},
	}
	all := Area{Names: []string{"eth1", "eth1.10"}, Made: []string{"eth1.10"}, Removed: []string{"eth1.10"}}
	adding := Area{
		Names: all.Names,
		Added: []Addition{{Destination: object.DestinationOf(routeTo("198.18.1.0/24", 0))}, {Destination: object.DestinationOf(routeTo("198.18.2.0/24", 0))}},
	}
	for _, c := range []struct {
		name string
		now  Image
		area Area
		want []string
		gone []string
	}{
		{"nothing has changed", *before, all, nil, nil},
		{"all of a device is gone", Image{Links: []Message{eth1}}, all, []string{"create eth1.10"}, nil},
		{"a device has gone that nobody removed", Image{Links: []Message{eth1}}, Area{Names: all.Names}, nil, []string{"eth1.10: the interface has gone meanwhile"}},
		{"hardware is gone", Image{}, Area{Names: all.Names, Removed: []string{"eth1"}}, nil, []string{"eth1: the hardware is gone", "eth1.10: the interface below it is gone"}},
		{
			"the change has made another device of the name",
			Image{Links: []Message{eth1, device(7, "eth1.10", "vlan", 2)}},
			all,
			[]string{"delete eth1.10", "create eth1.10"},
			nil,
		},
		{
			"the index is taken by another device",
			Image{Links: []Message{eth1, device(5, "pod", "veth", 0)}},
			all,
			[]string{"create eth1.10 of any index"},
			nil,
		},
		{
			"it is back with another index",
			Image{Links: []Message{eth1, device(5, "pod", "veth", 0), device(8, "eth1.10", "vlan", 2)}},
			all,
			[]string{"add 192.0.2.1/24 to eth1.10 on 8", "add the route 198.51.100.0/24 of table 254 by 8", "add the route 203.0.113.0/24 of table 254 by 8"},
			nil,
		},
		{
			"the change has added a route, and others have", Image{
				Links: before.Links, Addresses: before.Addresses,
				Routes: append(
					slices.Clone(before.Routes), routeTo("198.18.0.0/24", 186), routeTo("198.18.1.0/24", unix.RTPROT_STATIC),
					routeTo("198.18.2.0/24", unix.RTPROT_BOOT), routeTo("198.18.3.0/24", unix.RTPROT_STATIC),
				),
			}, adding, []string{"remove the route 198.18.1.0/24 of table 254 by 5"}, nil,
		},
		{
			"the change has added a route again", Image{
				Links: before.Links, Addresses: before.Addresses,
				Routes: []Message{routeTo("198.51.100.0/24", unix.RTPROT_STATIC), before.Routes[1]},
			}, all, []string{"remove the route 198.51.100.0/24 of table 254 by 5", "add the route 198.51.100.0/24 of table 254 by 5"}, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests, gone := Back(before, &c.now, c.area, 0)
			if diff := cmp.Diff(c.want, reported(requests)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.gone, gone); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// told returns what requests do, with the index of the device.
func reported(requests []Request) (list []string) {
	for _, r := range requests {
		text := r.What
		switch {
		case strings.HasPrefix(text, "create") && object.DeviceOf(r.Body) == 0:
			text += " of any index"
		case r.Kind == unix.RTM_NEWADDR:
			text += fmt.Sprintf(" on %d", object.DeviceOf(r.Body))
		case r.Kind == unix.RTM_NEWROUTE || r.Kind == unix.RTM_DELROUTE:
			for _, out := range object.OutsOf(r.Body) {
				text += fmt.Sprintf(" by %d", out)
			}
		}
		list = append(list, text)
	}
	return list
}

func TestRestore_AddressLifetime_ContinuesCounting(t *testing.T) {
	for _, c := range []struct {
		left uint32
		age  time.Duration
		want uint32
	}{
		{infinite, time.Hour, infinite}, {3000, time.Minute, 2940}, {30, -time.Minute, 30},
	} {
		before := &Image{Links: []Message{device(2, "eth1", "", 0)}, Addresses: []Message{addressOn(2, "192.0.2.1/24", c.left)}}
		requests, _ := Back(before, &Image{Links: before.Links}, Area{Names: []string{"eth1"}}, c.age)
		if len(requests) != 1 {
			t.Fatalf("got %v", requests)
		}
		info := object.Addresses().Attributes(requests[0].Body).Get(unix.IFA_CACHEINFO)
		if got := binary.NativeEndian.Uint32(info[4:]); got != c.want {
			t.Errorf("%d s are %d after %s, want %d", c.left, got, c.age, c.want)
		}
	}
}

// TestRestore_Expired_NotRestored: the kernel refuses an address without a lifetime, and an undo that
// asked for one would never end.
func TestRestore_Expired_NotRestored(t *testing.T) {
	before := &Image{
		Links: []Message{device(5, "eth1", "", 0)}, Addresses: []Message{addressOn(5, "192.0.2.9/24", 30)},
		Routes: []Message{expiring("fd01::/64", 30), expiring("fd02::/64", 90), expiring("fd03::/64", 0)},
	}
	requests, _ := Back(before, &Image{Links: before.Links}, Area{Names: []string{"eth1"}}, time.Minute)
	want := []string{"add the route fd02::/64 of table 254 by 5", "add the route fd03::/64 of table 254 by 5"}
	if diff := cmp.Diff(want, reported(requests)); diff != "" {
		t.Fatal(diff)
	}
	if left := object.Routes().Attributes(requests[0].Body).Value(object.RouteExpires); left != 30 {
		t.Errorf("90 s are %d after a minute", left)
	}
	if left := object.Routes().Attributes(requests[1].Body).Get(object.RouteExpires); left != nil {
		t.Errorf("a route without a lifetime has one: %x", left)
	}
}

// expiring returns a route of IPv6 by device 5 with a lifetime in seconds.
func expiring(text string, seconds uint32) Message {
	m := routeTo(text, unix.RTPROT_RA)
	m[0] = unix.AF_INET6
	return object.AppendAttribute(m, unix.RTA_CACHEINFO, slices.Concat(native(0), native(0), native(100*seconds), make([]byte, 20)))
}

// TestRestore_DaemonNextHop_Kept: a routing daemon may give a number another object meanwhile.
func TestRestore_DaemonNextHop_Kept(t *testing.T) {
	hop := func(id, out uint32) Message {
		m := make(Message, object.HeaderOfNextHop)
		return object.AppendAttribute(object.AppendAttribute(m, object.NextHopID, native(id)), object.NextHopOut, native(out))
	}
	before := &Image{Links: []Message{device(5, "eth1", "", 0), device(6, "eth2", "", 0)}, NextHops: []Message{hop(1, 5)}}
	now := &Image{Links: before.Links, NextHops: []Message{hop(1, 6)}}
	if requests, _ := Back(before, now, Area{Names: []string{"eth1"}}, 0); len(requests) != 0 {
		t.Errorf("got %v", requests)
	}
}

// TestRestore_DaemonRoute_Kept: neither is its old route added again, nor is one of a protocol that
// nobody else writes left out.
func TestRestore_DaemonRoute_Kept(t *testing.T) {
	const bird = 12
	through := func(m Message, gateway string) Message {
		return object.AppendAttribute(m, unix.RTA_GATEWAY, netip.MustParseAddr(gateway).AsSlice())
	}
	before := &Image{
		Links: []Message{device(5, "eth1", "", 0)},
		Routes: []Message{
			through(routeTo("198.51.100.0/24", bird), "192.0.2.1"), through(routeTo("203.0.113.0/24", bird), "192.0.2.1"),
			through(routeTo("198.18.0.0/24", unix.RTPROT_STATIC), "192.0.2.1"),
		},
	}
	now := &Image{Links: before.Links, Routes: []Message{
		through(routeTo("198.51.100.0/24", bird), "192.0.2.2"), through(routeTo("198.18.0.0/24", unix.RTPROT_STATIC), "192.0.2.2"),
	}}
	added := Area{Names: []string{"eth1"}, Added: []Addition{{Destination: object.DestinationOf(before.Routes[2])}}}
	requests, _ := Back(before, now, added, 0)
	want := []string{
		"remove the route 198.18.0.0/24 of table 254 by 5",
		"add the route 203.0.113.0/24 of table 254 by 5", "add the route 198.18.0.0/24 of table 254 by 5",
	}
	if diff := cmp.Diff(want, reported(requests)); diff != "" {
		t.Error(diff)
	}
}

// TestRestore_RouteWithOtherAttributes_Kept: a routing daemon, or an administrator, has written the
// route of IPv6 anew, by the same next hop. The kernel refuses a second route beside it. A route
// with an MTU that the kernel has lowered does not count as written anew, and is restored.
func TestRestore_RouteWithOtherAttributes_Kept(t *testing.T) {
	const bird = 12
	metrics := func(kind uint16, protocol byte, value uint32) Message {
		m := routeTo("fd01::/64", protocol)
		m[0] = unix.AF_INET6
		return object.AppendAttribute(m, unix.RTA_METRICS, object.AppendAttribute(nil, kind, native(value)))
	}
	for _, protocol := range []byte{bird, unix.RTPROT_BOOT} {
		for kind, want := range map[uint16][]string{
			unix.RTAX_WINDOW: nil,
			unix.RTAX_MTU:    {"remove the route fd01::/64 of table 254 by 5", "add the route fd01::/64 of table 254 by 5"},
		} {
			before := &Image{Links: []Message{device(5, "eth1", "", 0)}, Routes: []Message{metrics(kind, protocol, 1400)}}
			now := &Image{Links: before.Links, Routes: []Message{metrics(kind, protocol, 1300)}}
			requests, _ := Back(before, now, Area{Names: []string{"eth1"}}, 0)
			if diff := cmp.Diff(want, reported(requests)); diff != "" {
				t.Errorf("attribute %d, protocol %d: %s", kind, protocol, diff)
			}
		}
	}
}

// TestRestore_ExistingRouteInSlot_NotNew: it was there before, through a device that the change does
// not touch, and so is in nobody's place.
func TestRestore_ExistingRouteInSlot_NotNew(t *testing.T) {
	const bird = 12
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		through := func(out uint32) Message {
			m := make(Message, object.HeaderOfRoute)
			m[0], m[1], m[4], m[5], m[7] = family, 0, unix.RT_TABLE_MAIN, bird, unix.RTN_UNICAST
			return object.AppendAttribute(object.AppendAttribute(m, unix.RTA_TABLE, native(unix.RT_TABLE_MAIN)), unix.RTA_OIF, native(out))
		}
		all := &Image{Links: []Message{device(5, "eth1", "", 0), device(6, "eth2", "", 0)}, Routes: []Message{through(5), through(6)}}
		a := Area{Names: []string{"eth1"}}
		requests, _ := Back(all.Within(a), &Image{Links: all.Links, Routes: []Message{through(6)}}, a, 0)
		if !slices.ContainsFunc(reported(requests), func(text string) bool { return strings.HasPrefix(text, "add ") && strings.HasSuffix(text, " by 5") }) {
			t.Errorf("family %d: got %v", family, reported(requests))
		}
	}
}

// TestRestore_RemainderOnOtherDevice_RouteFound: the change has taken a next hop away from a route
// of IPv6, and the other one is on a device that it does not touch.
func TestRestore_RemainderOnOtherDevice_RouteFound(t *testing.T) {
	to := func(outs ...uint32) Message {
		m := make(Message, object.HeaderOfRoute)
		m[0], m[1], m[4], m[5], m[7] = unix.AF_INET6, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RTN_UNICAST
		m = object.AppendAttribute(m, unix.RTA_TABLE, native(unix.RT_TABLE_MAIN))
		if len(outs) == 1 {
			return object.AppendAttribute(m, unix.RTA_OIF, native(outs[0]))
		}
		var hops []byte
		for _, out := range outs {
			hops = append(hops, slices.Concat(binary.NativeEndian.AppendUint16(nil, unix.SizeofRtNexthop), []byte{0, 0}, native(out))...)
		}
		return object.AppendAttribute(m, unix.RTA_MULTIPATH, hops)
	}
	all := &Image{Links: []Message{device(5, "eth1", "", 0), device(6, "eth2", "", 0)}, Routes: []Message{to(5, 6)}}
	a := Area{Names: []string{"eth1"}}
	requests, _ := Back(all.Within(a), &Image{Links: all.Links, Routes: []Message{to(6)}}, a, 0)
	want := []string{"remove the route ::/0 of table 254 by 6", "add the route ::/0 of table 254 by 5 by 6"}
	if diff := cmp.Diff(want, reported(requests)); diff != "" {
		t.Error(diff)
	}
}

// TestRestore_RouteReaddedByChange_Removed: documents know no type of service, so it is in another slot.
func TestRestore_RouteReaddedByChange_Removed(t *testing.T) {
	typed := routeTo("198.51.100.0/24", unix.RTPROT_BOOT)
	typed[3] = 0x10
	before := &Image{Links: []Message{device(5, "eth1", "", 0)}, Routes: []Message{typed}}
	now := &Image{Links: before.Links, Routes: []Message{routeTo("198.51.100.0/24", unix.RTPROT_STATIC), routeTo("198.51.100.0/24", unix.RTPROT_BOOT)}}
	a := Area{Names: []string{"eth1"}}
	requests, _ := Back(before, now, a, 0)
	want := []string{"remove the route 198.51.100.0/24 of table 254 by 5", "add the route 198.51.100.0/24 of table 254 by 5"}
	if diff := cmp.Diff(want, reported(requests)); diff != "" {
		t.Error(diff)
	}
	if others := before.WithOthers(now, a, 0).Others.Routes; len(others) != 1 || others[0][5] != unix.RTPROT_BOOT {
		t.Errorf("routes of others: %v", others)
	}
}

// TestRestore_ForeignAddress_Kept: the change has added another one, and one came by a lease. Those
// that a record of an earlier release does not tell from others go.
func TestRestore_ForeignAddress_Kept(t *testing.T) {
	leased := object.AppendAttribute(addressOn(5, "192.0.2.50/24", 3600), object.AddressOrigin, []byte{object.OriginLease})
	before := &Image{
		Links:     []Message{device(5, "eth1", "", 0)},
		Addresses: []Message{addressOn(5, "192.0.2.1/24", infinite), addressOn(5, "198.51.100.1/24", infinite)},
	}
	now := &Image{Links: before.Links, Addresses: []Message{
		before.Addresses[1], addressOn(5, "203.0.113.9/24", infinite), leased, addressOn(5, "192.0.2.99/24", infinite), addressOn(5, "10.0.0.9/32", infinite),
	}}
	a := Area{Names: []string{"eth1"}, Addresses: map[string][]netip.Prefix{"eth1": {netip.MustParsePrefix("203.0.113.9/24")}}}
	for name, c := range map[string]struct {
		area Area
		want []string
	}{
		"known": {a, []string{
			"remove 198.51.100.1/24 from eth1", "remove 203.0.113.9/24 from eth1", "remove 192.0.2.50/24 from eth1",
			"add 192.0.2.1/24 to eth1 on 5", "add 198.51.100.1/24 to eth1 on 5", "add 192.0.2.99/24 to eth1 on 5",
		}},
		"of an earlier release": {Area{Names: a.Names}, []string{
			"remove 198.51.100.1/24 from eth1", "remove 203.0.113.9/24 from eth1", "remove 192.0.2.50/24 from eth1", "remove 192.0.2.99/24 from eth1",
			"remove 10.0.0.9/32 from eth1", "add 192.0.2.1/24 to eth1 on 5", "add 198.51.100.1/24 to eth1 on 5",
		}},
	} {
		requests, _ := Back(before, now, c.area, 0)
		if diff := cmp.Diff(c.want, reported(requests)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestRestore_AddressWithdrawn_NotRestored: another node has it by now. What the change lost, and what a
// device lost with all others of the family, is added again.
func TestRestore_AddressWithdrawn_NotRestored(t *testing.T) {
	i := &Image{Links: []Message{device(5, "eth1", "", 0), device(6, "eth2", "", 0)}, Addresses: []Message{
		addressOn(
			5,
			"192.0.2.1/24",
			infinite,
		), addressOn(5, "192.0.2.77/32", infinite), addressOn(5, "198.51.100.1/24", infinite), addressOn(6, "10.0.0.1/24", infinite),
	}}
	i.NoteSurvivors(&Image{Addresses: []Message{i.Addresses[0], i.Addresses[1], i.Addresses[3]}})
	now := &Image{Links: i.Links, Addresses: i.Addresses[:1]}
	requests, _ := Back(i.WithoutWithdrawn(now), now, Area{Names: []string{"eth1", "eth2"}}, 0)
	want := []string{"add 10.0.0.1/24 to eth2 on 6", "add 198.51.100.1/24 to eth1 on 5"}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(reported(requests)))); diff != "" {
		t.Error(diff)
	}
}

// TestRestore_RouteWithdrawn_NotRestored: its daemon withdrew it after the change. What the change lost, and
// what nobody's program wrote, is added again.
func TestRestore_RouteWithdrawn_NotRestored(t *testing.T) {
	const bird = 12
	byNumber := func(to string) Message {
		return object.AppendAttribute(routeTo(to, bird), object.RouteNextHop, native(7))
	}
	i := &Image{Links: []Message{device(5, "eth1", "", 0)}, Routes: []Message{
		routeTo("198.18.0.0/24", bird), routeTo("198.18.1.0/24", bird), routeTo("198.18.2.0/24", bird),
		routeTo("198.18.3.0/24", unix.RTPROT_STATIC), byNumber("198.18.4.0/24"),
	}}
	i.NoteSurvivors(&Image{Routes: append(slices.Clone(i.Routes[:2]), i.Routes[3:]...)})
	now := &Image{Links: i.Links, Routes: i.Routes[:1]}
	requests, _ := Back(i.WithoutWithdrawn(now), now, Area{Names: []string{"eth1"}}, 0)
	want := []string{
		"add the route 198.18.2.0/24 of table 254 by 5", "add the route 198.18.3.0/24 of table 254 by 5",
		"add the route 198.18.4.0/24 of table 254",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(reported(requests)))); diff != "" {
		t.Error(diff)
	}
}

// TestRestore_ForeignNeighbours_Kept, on a device of the area and on one that came meanwhile: no change
// adds any. Nor is one that somebody has written anew made what it was.
func TestRestore_ForeignNeighbours_Kept(t *testing.T) {
	neighbour := func(index uint32, flags byte) Message {
		m := make(Message, object.HeaderOfNeighbor)
		m[0], m[8], m[10] = unix.AF_INET, unix.NUD_PERMANENT, flags
		binary.NativeEndian.PutUint32(m[4:], index)
		return object.AppendAttribute(m, unix.NDA_DST, netip.MustParseAddr("192.0.2.9").AsSlice())
	}
	before := &Image{Links: []Message{device(5, "eth1", "", 0)}}
	now := &Image{
		Links:     append(slices.Clone(before.Links), device(9, "pod", "vlan", 5)),
		Neighbors: []Message{neighbour(5, unix.NTF_EXT_LEARNED), neighbour(9, 0)},
	}
	for _, was := range [][]Message{nil, {object.AppendAttribute(neighbour(5, 0), unix.NDA_LLADDR, []byte{2, 0, 0, 0, 0, 9})}} {
		before.Neighbors = was
		if requests, _ := Back(before, now, Area{Names: []string{"eth1"}}, 0); len(requests) != 0 {
			t.Errorf("after %d: got %v", len(was), requests)
		}
	}
}

// TestSnapshot_MulticastRoutes_Excluded: their counters change, and only the daemon that has
// the socket can add them.
func TestSnapshot_MulticastRoutes_Excluded(t *testing.T) {
	route := routeTo("198.51.100.0/24", unix.RTPROT_STATIC)
	for family, want := range map[byte]bool{unix.AF_INET: true, unix.AF_INET6: true, unix.AF_MPLS: true, 128: false, 129: false} {
		if route[0] = family; object.IsNoCopy(route) != want {
			t.Errorf("family %d: got %t", family, !want)
		}
	}
}

// TestRestore_PodEndedMeanwhile_NotMissed: its end of a pair was a port of the bridge that changed.
func TestRestore_PodEndedMeanwhile_NotMissed(t *testing.T) {
	bridge := device(5, "br0", "bridge", 0)
	pod := object.AppendAttribute(device(9, "pod", "veth", 0), unix.IFLA_LINK_NETNSID, native(0))
	before, now := &Image{Links: []Message{bridge, pod}}, &Image{Links: []Message{bridge}}
	for name, want := range map[string][]string{"br0": nil, "pod": {"pod: the interface has gone meanwhile"}} {
		_, gone := Back(before, now, Area{Names: []string{name}, Reached: []string{"br0", "pod"}}, 0)
		if diff := cmp.Diff(want, gone); diff != "" {
			t.Error(diff)
		}
	}
}

// TestSnapshot_TruncatedMessage_NoPanic: a record comes from a file.
func TestSnapshot_TruncatedMessage_NoPanic(t *testing.T) {
	whole := &Image{
		Links: []Message{device(2, "eth1", "", 0), device(5, "eth1.10", "vlan", 2)}, Addresses: []Message{addressOn(5, "192.0.2.1/24", infinite)},
		Routes: []Message{routeTo("198.51.100.0/24", unix.RTPROT_BOOT)}, Replaced: []Message{routeTo("198.51.100.0/24", unix.RTPROT_BOOT)},
		Others: &Image{Addresses: []Message{addressOn(5, "192.0.2.2/24", infinite)}},
	}
	if problem := whole.Check(); problem != nil {
		t.Fatal(problem)
	}
	for _, list := range []*[]Message{&whole.Links, &whole.Addresses, &whole.Routes, &whole.Replaced, &whole.Others.Addresses} {
		kept := *list
		*list = []Message{kept[0][:4]}
		if whole.Check() == nil {
			t.Errorf("a message of %d bytes passes", 4)
		}
		*list = kept
	}
}

// TestRestore_BridgeWithoutAddress_Recreated: it lost its last port, and the kernel refuses to set the
// address zero. It gets that by losing another port.
func TestRestore_BridgeWithoutAddress_Recreated(t *testing.T) {
	bridge := object.AppendAttribute(device(5, "br0", "bridge", 0), unix.IFLA_ADDRESS, make([]byte, 6))
	there := object.AppendAttribute(device(5, "br0", "bridge", 0), unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0, 1})
	a := Area{Names: []string{"br0"}, Removed: []string{"br0"}}
	again := []string{"create br0", "attach a port to br0", "delete the port of br0"}
	port := device(7, passingPort, "veth", 0)
	for name, c := range map[string]struct {
		now  []Message
		area Area
		want []string
	}{
		"it is gone":                      {nil, a, again},
		"it is back with another address": {[]Message{there}, a, append([]string{"delete br0"}, again...)},
		"the change does not remove it":   {[]Message{there}, Area{Names: a.Names}, nil},
		"an undo ended between":           {[]Message{there, object.AppendAttribute(port, unix.IFLA_MASTER, native(5))}, a, []string{"delete " + passingPort}},
	} {
		requests, _ := Back(&Image{Links: []Message{bridge}}, &Image{Links: c.now}, c.area, 0)
		if diff := cmp.Diff(c.want, reported(requests)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if len(requests) > 2 && object.LinkOf(requests[len(requests)-3].Body).Get(unix.IFLA_ADDRESS) != nil {
			t.Errorf("%s: the bridge is made with the address that it had", name)
		}
	}
}
