// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nic knows the devices of a node that may be delegated: moved into a pod as they
// are. A device that the node itself needs never is: one with an address of the node, with
// a default route, with a controller such as a bond, or that other devices are made of.
package nic

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// ErrMissing reports that the node has no device with an Ethernet address.
var ErrMissing = errors.New("the node has no such device")

// ErrNotOffered reports that the configuration of the node does not name the device.
var ErrNotOffered = errors.New("the node does not offer the device to pods")

// ErrInUse reports that the node itself needs the device.
var ErrInUse = errors.New("the node needs the device itself")

// Node has the devices of a node's network namespace. The zero value has none.
type Node struct {
	Links  []netlink.Link
	Addrs  []netlink.Addr
	Routes []netlink.Route
}

// Read reads the network namespace of the calling thread.
func Read() (Node, error) {
	links, err := rtnl.Complete(netlink.LinkList)
	if err != nil {
		return Node{}, fmt.Errorf("list devices: %w", err)
	}
	addrs, err := rtnl.Complete(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return Node{}, fmt.Errorf("list addresses: %w", err)
	}
	routes, err := rtnl.Complete(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(
			netlink.FAMILY_ALL,
			&netlink.Route{Table: unix.RT_TABLE_UNSPEC},
			netlink.RT_FILTER_TABLE,
		)
	})
	if err != nil {
		return Node{}, fmt.Errorf("list routes: %w", err)
	}
	return Node{Links: links, Addrs: addrs, Routes: routes}, nil
}

// Find returns the device with an Ethernet address that may be delegated, or an ErrMissing
// or ErrInUse. A virtual function and the device that stands for it share an address: the
// first has the second as controller, so the second is found.
func (n Node) Find(mac net.HardwareAddr) (netlink.Link, error) {
	var found []netlink.Link
	var refused []error
	for _, link := range n.Links {
		if !bytes.Equal(link.Attrs().HardwareAddr, mac) {
			continue
		}
		if use := n.Use(link); use != "" {
			refused = append(refused, fmt.Errorf("%w: %s %s", ErrInUse, link.Attrs().Name, use))
			continue
		}
		found = append(found, link)
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf(
			"%w: %s and %s both have the address %s",
			ErrInUse,
			found[0].Attrs().Name,
			found[1].Attrs().Name,
			mac,
		)
	case len(refused) > 0:
		return nil, errors.Join(refused...)
	}
	return nil, fmt.Errorf("%w: none has the address %s; is it plugged in, and not in a pod?", ErrMissing, mac)
}

// Named reports whether the name of a device matches one of the patterns (path.Match). It
// returns an error for a malformed pattern.
func Named(name string, patterns []string) (bool, error) {
	for _, pattern := range patterns {
		ok, err := path.Match(pattern, name)
		if err != nil {
			return false, fmt.Errorf("pattern %q of delegated devices: %w", pattern, err)
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}

// Device is a device that the node offers.
type Device struct {
	Name string
	MAC  net.HardwareAddr
}

// Offered returns the devices that may be delegated and whose name matches one of the
// patterns (path.Match), by name. It returns an error for a malformed pattern.
func (n Node) Offered(patterns []string) ([]Device, error) {
	var list []Device
	for _, link := range n.Links {
		name := link.Attrs().Name
		matches, err := Named(name, patterns)
		if err != nil {
			return nil, err
		}
		if matches && len(link.Attrs().HardwareAddr) == 6 && n.Use(link) == "" {
			list = append(list, Device{Name: name, MAC: link.Attrs().HardwareAddr})
		}
	}
	slices.SortFunc(list, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// physical is the type of devices that the kernel has a driver for. Such a device is the
// controller of its own virtual function (hv_netvsc), and of nothing else.
const physical = "device"

// Use returns the node's need for a device, or "".
func (n Node) Use(link netlink.Link) string {
	attrs := link.Attrs()
	switch {
	case attrs.Flags&net.FlagLoopback != 0:
		return "is the loopback device"
	case attrs.MasterIndex != 0:
		return fmt.Sprintf("has the controller %s", n.name(attrs.MasterIndex))
	case len(attrs.Vfs) > 0:
		return fmt.Sprintf("has %d virtual functions", len(attrs.Vfs))
	}
	for _, other := range n.Links {
		if other.Attrs().Index == attrs.Index {
			continue
		}
		if other.Attrs().MasterIndex == attrs.Index && link.Type() != physical {
			return fmt.Sprintf("is the controller of %s", other.Attrs().Name)
		}
		if other.Attrs().ParentIndex == attrs.Index && other.Type() != "veth" {
			return fmt.Sprintf("is what %s is made of", other.Attrs().Name)
		}
	}
	return n.reached(attrs.Index)
}

// reached returns why others reach the node by a device, or "" if they do not. Link-local addresses
// of IPv6 are on each device that is up.
func (n Node) reached(index int) string {
	for _, addr := range n.Addrs {
		if addr.LinkIndex == index && !addr.IP.IsLinkLocalUnicast() {
			return fmt.Sprintf("has the node's address %s", addr.IP)
		}
	}
	for _, route := range n.Routes {
		if isDefault(route) && leadsBy(route, index) {
			return "has a default route"
		}
	}
	return ""
}

func isDefault(route netlink.Route) bool {
	if route.Dst == nil {
		return route.Type == unix.RTN_UNICAST
	}
	ones, _ := route.Dst.Mask.Size()
	return ones == 0 && route.Type == unix.RTN_UNICAST
}

func leadsBy(route netlink.Route, index int) bool {
	return route.LinkIndex == index ||
		slices.ContainsFunc(route.MultiPath, func(hop *netlink.NexthopInfo) bool { return hop.LinkIndex == index })
}

func (n Node) name(index int) string {
	for _, link := range n.Links {
		if link.Attrs().Index == index {
			return link.Attrs().Name
		}
	}
	return fmt.Sprintf("with index %d", index)
}
