// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
)

// restoreAddresses gives each device its addresses back.
func (p *planner) restoreAddresses(before, now []Message) {
	was, is := byDevice(before), byDevice(now)
	for index := range p.now {
		if _, ours := p.before[index]; !ours {
			continue
		}
		p.restoreIPv4(of(was[index], unix.AF_INET), of(is[index], unix.AF_INET))
		p.restoreIPv6(of(was[index], unix.AF_INET6), of(is[index], unix.AF_INET6))
	}
}

func byDevice(list []Message) map[uint32][]Message {
	all := map[uint32][]Message{}
	for _, m := range list {
		all[object.DeviceOf(m)] = append(all[object.DeviceOf(m)], m)
	}
	return all
}

func of(list []Message, family byte) []Message {
	return filtered(list, func(m Message) bool { return m[0] == family })
}

// restoreIPv4 restores the order too: the first address of a network is its primary one, and the
// source of packets. Addresses after the first difference are removed, and added again. With a
// primary address the kernel may remove other addresses of its network that others have added.
func (p *planner) restoreIPv4(was, all []Message) {
	c, kept, had := object.Addresses(), 0, prefixesOf(was)
	others := func(m Message) bool { return !had[object.PrefixOf(m)] && !p.isMade(m) }
	is := filtered(all, func(m Message) bool { return !others(m) })
	for kept < len(was) && kept < len(is) && c.Canonical(was[kept]) == c.Canonical(is[kept]) {
		kept++
	}
	removed := prefixesOf(nil)
	for _, m := range is[kept:] {
		removed[object.PrefixOf(m).Masked()] = true
		p.removeAddress(m)
	}
	for _, m := range was[kept:] {
		p.addAddress(m, object.Exclusive, p.age)
	}
	for _, m := range filtered(all, others) {
		if removed[object.PrefixOf(m).Masked()] {
			p.addAddress(m, c.Create, 0)
		}
	}
}

// network is one of a device.
type network struct {
	device uint32
	prefix netip.Prefix
}

func prefixesOf(list []Message) map[netip.Prefix]bool {
	set := make(map[netip.Prefix]bool, len(list))
	for _, m := range list {
		set[object.PrefixOf(m)] = true
	}
	return set
}

// isMade reports whether an address that was not there before came with the change: by a step,
// or by a DHCP client that the change has started. Others add addresses meanwhile, such as the
// virtual address of a router whose partner fails.
func (p *planner) isMade(m Message) bool {
	return p.area.Addresses == nil || object.Addresses().Attributes(m).Value(object.AddressOrigin) == object.OriginLease ||
		slices.Contains(p.area.Addresses[p.deviceName(m)], object.PrefixOf(m))
}

// restoreIPv6 adds the newest address last, as the kernel lists them.
func (p *planner) restoreIPv6(was, is []Message) {
	c := object.Addresses()
	have, kept := canonical(c, is), prefixesOf(was)
	for _, m := range is {
		switch {
		case kept[object.PrefixOf(m)] || object.IsAutomatic(m):
		case p.isMade(m):
			p.removeAddress(m)
		default:
			p.others[network{object.DeviceOf(m), object.PrefixOf(m).Masked()}] = true
		}
	}
	for _, m := range slices.Backward(was) {
		if have[c.Canonical(m)] {
			continue
		}
		if p.isWholeInVRF(m) && p.holds(m) {
			p.removeAddress(m)
		}
		p.addAddress(m, c.Create, p.age)
	}
}

// isWholeInVRF reports whether an address has a network of its own, and a device of a VRF. The
// route to the address and the one to its network are in one table then. A kernel that changes
// such an address takes the first one for the second, and removes it (modify_prefix_route of Linux
// 6.12). So the address is never changed, but added anew.
func (p *planner) isWholeInVRF(m Message) bool {
	l := p.before[object.DeviceOf(m)]
	return m[0] == unix.AF_INET6 && object.PrefixOf(m).IsSingleIP() && (l.Driver == "vrf" || l.PortOf == "vrf")
}

func (p *planner) removeAddress(m Message) {
	p.request(
		Request{What: fmt.Sprintf("remove %s from %s", object.PrefixOf(m), p.deviceName(m)), Kind: unix.RTM_DELADDR, Body: m},
	)
}

// addAddress adds an address with what is left of its lifetimes after some time. One of IPv6 is
// usable at once; the next look finds the flag, and removes it without a detection of duplicates.
func (p *planner) addAddress(m Message, create int, age time.Duration) {
	c := object.Addresses()
	m = slices.Clone(m)
	c.Settle(m)
	attributes := c.Attributes(m)
	if left := attributes.Get(unix.IFA_CACHEINFO); len(left) >= 8 {
		object.Elapse(left[:4], age)
		object.Elapse(left[4:8], age)
	}
	if flags := attributes.Get(unix.IFA_FLAGS); m[0] == unix.AF_INET6 && len(flags) == 4 && !p.holds(m) &&
		!p.isWholeInVRF(m) {
		binary.NativeEndian.PutUint32(flags, binary.NativeEndian.Uint32(flags)|unix.IFA_F_NODAD)
	}
	p.request(
		Request{What: fmt.Sprintf("add %s to %s", object.PrefixOf(m), p.deviceName(m)), Kind: c.Add, Flags: create, Body: m},
	)
}

// holds reports whether a device has an address now, perhaps with other settings.
func (p *planner) holds(m Message) bool { return p.held[object.DeviceOf(m)][object.PrefixOf(m)] }

// lasts reports whether the lifetime of an address is not over since.
func (p *planner) lasts(m Message) bool {
	left := slices.Clone(object.Addresses().Attributes(m).Get(unix.IFA_CACHEINFO))
	if len(left) < 8 {
		return true
	}
	object.Elapse(left[4:8], p.age)
	return binary.NativeEndian.Uint32(left[4:8]) > 0
}
