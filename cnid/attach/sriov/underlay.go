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

// nodeAddress returns an address of the node that a device carries, and the device that has
// it; "" for none.
func (d *session) nodeAddress(pf int) (device string, addr netip.Addr, err error) {
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
		for _, one := range addrs {
			if ip, ok := netip.AddrFromSlice(one.IP); ok && one.LinkIndex == a.Index {
				p.addrs = append(p.addrs, ip.Unmap())
			}
		}
		stack = append(stack, p)
	}
	device, addr = carried(pf, stack)
	return device, addr, nil
}

// place is a device of the node with what it is a part of.
type place struct {
	index int
	name  string
	// master is the bridge or bond that it is a port of, below the device that it is
	// derived from, such as that of a VLAN; 0 for none.
	master, below int
	addrs         []netip.Addr
}

// carried returns an address whose packets may pass a device: of itself, of a bridge or bond
// that it is a port of, or of a VLAN on one of them. A VF without a VLAN may send tagged
// packets too, so VLANs of the node count.
func carried(pf int, stack []place) (device string, addr netip.Addr) {
	above := map[int]bool{pf: true}
	for grown := true; grown; {
		grown = false
		for _, p := range stack {
			for _, next := range p.upward(above) {
				grown = grown || !above[next]
				above[next] = true
			}
		}
	}
	for _, p := range stack {
		for _, ip := range p.addrs {
			if above[p.index] && ip.IsGlobalUnicast() {
				return p.name, ip
			}
		}
	}
	return "", netip.Addr{}
}

// upward returns the devices that a device adds to those above another one.
func (p place) upward(above map[int]bool) (more []int) {
	if above[p.index] && p.master != 0 {
		more = append(more, p.master)
	}
	if p.below != 0 && above[p.below] {
		more = append(more, p.index)
	}
	return more
}
