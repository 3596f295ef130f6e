// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machine puts programs into a network namespace inside of a pod, as a virtual
// machine in a pod has one: it takes the pod's interface for its own, with its addresses.
// The node has no record of that namespace, so no socket hook applies there.
package machine

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Make moves the calling thread, which has to be locked, into a new namespace. The namespace has a
// device of the same name, addresses and routes as the pod's, and gets the packets for that one.
// The pod's own device is left without traffic. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
func Make(device string) error {
	outer, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	defer outer.Close()
	found, err := look(outer, device)
	if err != nil {
		return err
	}
	space, err := netns.New()
	if err != nil {
		return fmt.Errorf("make a network namespace (needs CAP_SYS_ADMIN): %w", err)
	}
	defer space.Close()
	// A device of this kind takes all packets for the device below it, and sends by the address of
	// that device. Virtual machines are attached in the same way.
	err = outer.LinkAdd(&netlink.Macvlan{
		LinkAttrs: netlink.LinkAttrs{
			Name: device, ParentIndex: found.link.Attrs().Index, MTU: found.link.Attrs().MTU,
			HardwareAddr: found.link.Attrs().HardwareAddr, Namespace: netlink.NsFd(int(space)),
		},
		Mode: netlink.MACVLAN_MODE_PASSTHRU,
	})
	if err != nil {
		return fmt.Errorf("put a device upon %s: %w", device, err)
	}
	inner, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	defer inner.Close()
	return found.giveTo(inner, device)
}

// ErrNone is returned where a machine does not exist, at least not yet.
var ErrNone = errors.New("the device is the pod's own")

// Join moves the calling thread, which has to be locked, into the machine that a process has made.
// A runtime starts commands in a pod in the namespace of the pod's first process, which may be the
// machine's already.
func Join(pid int, device string) error {
	space, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("find the network namespace of process %d: %w", pid, err)
	}
	defer space.Close()
	if err := netns.Set(space); err != nil {
		return fmt.Errorf("enter the network namespace of process %d: %w", pid, err)
	}
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	defer handle.Close()
	link, err := handle.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find %s: %w", device, err)
	}
	if _, ok := link.(*netlink.Macvlan); !ok {
		return fmt.Errorf("join process %d: %w", pid, ErrNone)
	}
	return nil
}

// setUp has the settings of a device.
type setUp struct {
	link      netlink.Link
	addresses []netlink.Addr
	routes    []netlink.Route
}

func look(h *netlink.Handle, device string) (setUp, error) {
	var s setUp
	var err error
	if s.link, err = h.LinkByName(device); err != nil {
		return s, fmt.Errorf("find %s: %w", device, err)
	}
	if s.addresses, err = h.AddrList(s.link, netlink.FAMILY_ALL); err != nil {
		return s, fmt.Errorf("list addresses of %s: %w", device, err)
	}
	if s.routes, err = h.RouteList(s.link, netlink.FAMILY_ALL); err != nil {
		return s, fmt.Errorf("list routes of %s: %w", device, err)
	}
	return s, nil
}

// giveTo sets up the device of another namespace alike.
func (s setUp) giveTo(h *netlink.Handle, device string) error {
	link, err := h.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find the new %s: %w", device, err)
	}
	loopback, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := errors.Join(h.LinkSetUp(loopback), h.LinkSetUp(link)); err != nil {
		return fmt.Errorf("set devices up: %w", err)
	}
	for _, address := range s.addresses {
		if address.IP.IsLinkLocalUnicast() {
			continue
		}
		given := &netlink.Addr{IPNet: address.IPNet}
		if address.IP.To4() == nil {
			given.Flags = unix.IFA_F_NODAD // or nothing can use it for a while
		}
		if err := h.AddrAdd(link, given); err != nil {
			return fmt.Errorf("add address %s: %w", address.IPNet, err)
		}
	}
	for _, route := range s.routes {
		if route.Protocol == unix.RTPROT_KERNEL {
			continue // which comes with an address
		}
		route.LinkIndex = link.Attrs().Index
		if err := h.RouteReplace(&route); err != nil {
			return fmt.Errorf("add route by %s: %w", route.Gw, err)
		}
	}
	return nil
}
