// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package carrier finds which addresses of the node the frames of a device reach.
package carrier

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// stack has the devices of a node, with their addresses and the devices that they are parts of.
type stack []place

// Carried returns an address of the network namespace of a socket that frames reach by a
// device of it, and that counts: one of the device itself, of a bridge or bond that it is a
// port of, or of a VLAN on one of them. Frames with a tag reach the addresses of its VLAN
// only. tag 0 stands for a sender of frames with any tag, so every VLAN of the node is
// reached. counts is asked without the name of a device first.
//
// A node has a device for each pod, so it lists all of them only if the addresses that count
// are on the device, on a part of it, or on a device that may have ports.
func Carried(
	host *netlink.Handle,
	device *netlink.LinkAttrs,
	tag uint32,
	counts func(Address) bool,
) (Address, bool, error) {
	addrs, err := addresses(host)
	if err != nil {
		return Address{}, false, err
	}
	apart := true
	for ifindex, ips := range addrs {
		counted := slices.ContainsFunc(ips, func(ip netip.Addr) bool { return counts(Address{Ifindex: ifindex, IP: ip}) })
		if apart = !counted || device.MasterIndex == 0 && isApart(host, ifindex, device.Index); !apart {
			break
		}
	}
	if apart {
		return Address{}, false, nil
	}
	all, err := read(host, addrs)
	if err != nil {
		return Address{}, false, err
	}
	a, ok := all.carried(device.Index, tag, counts)
	return a, ok, nil
}

// isApart reports whether no frame of a device reaches another device, as far as the other device
// and the devices that it is derived from tell.
func isApart(host *netlink.Handle, ifindex, device int) bool {
	for range 8 { // the kernel's limit (MAX_NEST_DEV)
		if ifindex == device {
			return false
		}
		link, err := host.LinkByIndex(ifindex)
		if err != nil || mayHavePorts(link.Type()) {
			return false
		}
		if ifindex = below(link.Attrs()); ifindex == 0 {
			return true
		}
	}
	return false
}

// below returns the device that a device is derived from, 0 without one in its namespace.
func below(a *netlink.LinkAttrs) int {
	if a.NetNsID >= 0 { // the device below is in another namespace
		return 0
	}
	return a.ParentIndex
}

// mayHavePorts reports whether devices of a kind may have others as ports, such as bridges.
func mayHavePorts(kind string) bool {
	return !slices.Contains([]string{"device", "veth", "vlan", "vxlan", "macvlan", "ipvlan", "dummy"}, kind)
}

// addresses returns the addresses of a network namespace by the index of their device.
func addresses(host *netlink.Handle) (map[int][]netip.Addr, error) {
	list, err := rtnl.Complete(func() ([]netlink.Addr, error) { return host.AddrList(nil, unix.AF_UNSPEC) })
	if err != nil {
		return nil, fmt.Errorf("list the node's addresses: %w", err)
	}
	addrs := map[int][]netip.Addr{}
	for _, one := range list {
		if ip, ok := netip.AddrFromSlice(one.IP); ok {
			addrs[one.LinkIndex] = append(addrs[one.LinkIndex], ip.Unmap())
		}
	}
	return addrs, nil
}

// read returns the stack of the network namespace of a socket. addrs are the addresses of its
// devices.
func read(host *netlink.Handle, addrs map[int][]netip.Addr) (stack, error) {
	links, err := rtnl.Complete(host.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list the node's devices: %w", err)
	}
	var all stack
	for _, link := range links {
		a := link.Attrs()
		p := place{index: a.Index, name: a.Name, master: a.MasterIndex, below: below(a), addrs: addrs[a.Index]}
		if own, ok := link.(*netlink.Vlan); ok {
			p.vlan = uint32(own.VlanId)
		}
		all = append(all, p)
	}
	return all, nil
}

// place is a device of the node with the devices that it is a part of.
type place struct {
	index int
	name  string
	// master is the bridge or bond that the device is a port of, 0 for none. below is the device
	// that it is derived from, such as the parent of a VLAN; 0 for none.
	master, below int
	// vlan is the VLAN ID of a VLAN device, 0 for others.
	vlan  uint32
	addrs []netip.Addr
}

// Address is an address of a device.
type Address struct {
	Ifindex int
	Device  string
	IP      netip.Addr
}

// carried returns an address that frames reach by a device, as Carried does.
func (s stack) carried(device int, tag uint32, counts func(Address) bool) (Address, bool) {
	reached := map[int]uint32{device: tag} // the tag that the frames have there
	for grown := true; grown; {
		grown = false
		for _, p := range s {
			grown = p.spread(reached) || grown
		}
	}
	for _, p := range s {
		left, here := reached[p.index]
		for _, ip := range p.addrs {
			if a := (Address{p.index, p.name, ip}); here && left == 0 && counts(a) {
				return a, true
			}
		}
	}
	return Address{}, false
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
