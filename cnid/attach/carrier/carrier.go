// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package carrier finds which addresses of the node the frames of a device reach.
package carrier

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/netlinkdump"
)

// Stack is the devices of a node, with their addresses and what they are parts of.
type Stack []place

// Reader reads a Stack for all callers that ask at the same time: interfaces of one pod are
// made at once, and each list of the node's devices waits for the kernel's lock of all
// devices. The zero value is ready; one Reader is for one network namespace.
type Reader struct{ flight singleflight.Group }

// Read returns the Stack of the network namespace of a socket, as it is or was a moment
// before. It may change before the caller uses it in any case.
func (r *Reader) Read(host *netlink.Handle) (Stack, error) {
	stack, err, _ := r.flight.Do("", func() (any, error) { return read(host) })
	if err != nil {
		return nil, err
	}
	return stack.(Stack), nil
}

func read(host *netlink.Handle) (Stack, error) {
	links, err := netlinkdump.Complete(host.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list the node's devices: %w", err)
	}
	addrs, err := netlinkdump.Complete(func() ([]netlink.Addr, error) { return host.AddrList(nil, unix.AF_UNSPEC) })
	if err != nil {
		return nil, fmt.Errorf("list the node's addresses: %w", err)
	}
	var stack Stack
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
	return stack, nil
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

// Address is an address of a device.
type Address struct {
	Ifindex int
	Device  string
	IP      netip.Addr
}

// Carried returns an address that frames reach by a device and that counts: one of the
// device itself, of a bridge or bond that it is a port of, or of a VLAN on one of them.
// Frames with a tag reach the addresses of its VLAN only. tag 0 stands for a sender of
// frames with any tag, so every VLAN of the node is reached.
func (s Stack) Carried(device int, tag uint32, counts func(Address) bool) (Address, bool) {
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
