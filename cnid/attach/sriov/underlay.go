// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/netlinkdump"
)

// nodeAddress returns an address of the node that frames with a tag reach by a device, and
// the device that has it; "" for none. tag is as for carried.
func (d *session) nodeAddress(pf int, tag uint32) (device string, addr netip.Addr, err error) {
	links, err := netlinkdump.Complete(d.host.LinkList)
	if err != nil {
		return "", addr, fmt.Errorf("list the node's devices: %w", err)
	}
	addrs, err := netlinkdump.Complete(func() ([]netlink.Addr, error) { return d.host.AddrList(nil, unix.AF_UNSPEC) })
	if err != nil {
		return "", addr, fmt.Errorf("list the node's addresses: %w", err)
	}
	var stack []place
	for _, link := range links {
		a := link.Attrs()
		p := place{index: a.Index, name: a.Name, master: a.MasterIndex}
		if a.NetNsID < 0 { // the device below is in the same namespace
			p.below = a.ParentIndex
		}
		if own, ok := link.(*netlink.Vlan); ok {
			p.vlan = uint32(own.VlanId)
		}
		for _, one := range addrs {
			if ip, ok := netip.AddrFromSlice(one.IP); ok && one.LinkIndex == a.Index {
				p.addrs = append(p.addrs, ip.Unmap())
			}
		}
		stack = append(stack, p)
	}
	device, addr = carried(pf, tag, stack)
	return device, addr, nil
}

// place is a device of the node with what it is a part of.
type place struct {
	index int
	name  string
	// master is the bridge or bond that it is a port of, below the device that it is
	// derived from, such as that of a VLAN; 0 for none.
	master, below int
	// vlan is the VLAN ID of a VLAN device, 0 for others.
	vlan  uint32
	addrs []netip.Addr
}

// carried returns an address of the node that frames reach by a device: that of the device
// itself, of a bridge or bond that it is a port of, or of a VLAN on one of them. Frames with
// a tag reach the addresses of its VLAN only. tag 0 stands for a VF that may send frames with
// each tag, so every VLAN of the node counts.
func carried(pf int, tag uint32, stack []place) (device string, addr netip.Addr) {
	reached := map[int]uint32{pf: tag} // the tag that the frames have there
	for grown := true; grown; {
		grown = false
		for _, p := range stack {
			grown = p.spread(reached) || grown
		}
	}
	for _, p := range stack {
		left, here := reached[p.index]
		for _, ip := range p.addrs {
			if here && left == 0 && ip.IsGlobalUnicast() {
				return p.name, ip
			}
		}
	}
	return "", netip.Addr{}
}

// spread adds the devices that frames reach next by this one, and reports whether there are
// any.
func (p place) spread(reached map[int]uint32) (grown bool) {
	add := func(index int, tag uint32) {
		if before, known := reached[index]; !known || before != 0 && tag == 0 {
			reached[index], grown = tag, true
		}
	}
	if tag, here := reached[p.index]; here && p.master != 0 {
		add(p.master, tag)
	}
	tag, here := reached[p.below]
	switch {
	case !here || p.below == 0:
	case p.vlan == 0:
		add(p.index, tag)
	case tag == 0 || tag == p.vlan:
		add(p.index, 0)
	}
	return grown
}
