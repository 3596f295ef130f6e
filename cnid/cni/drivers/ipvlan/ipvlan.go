// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipvlan is the driver for interfaces that share a device of the node and its Ethernet
// address. The kernel delivers by IP address, so a switch that admits one address per port admits
// the pods too. Interfaces of one device reach each other, and not the node. The mode is L2: ARP,
// neighbour discovery and broadcasts reach every interface. The modes L3 and L3S, where the node
// routes for pods, do not exist here.
package ipvlan

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/child"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// Kind is the driver's, and the kernel's name of such devices.
const Kind ifdriver.Kind = "ipvlan"

// modeL2 is the only mode.
const modeL2 = "l2"

// Devices describes the interfaces of this kind.
var Devices = child.Devices{
	Kind: Kind, Modes: []string{modeL2}, SharesMAC: true, Requires: "the kernel module ipvlan (CONFIG_IPVLAN)",
	Links: links{},
}

// links implements child.Links.
type links struct{}

// New implements child.Links.
func (links) New(attrs netlink.LinkAttrs, _ string) netlink.Link {
	return &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L2, Flag: netlink.IPVLAN_FLAG_BRIDGE}
}

// ModeOf names the mode. All interfaces of a parent have one mode: another program that makes one
// in another mode changes them all.
func (links) ModeOf(link netlink.Link) string {
	own, ok := link.(*netlink.IPVlan)
	switch {
	case !ok:
		return "unknown"
	case own.Flag != netlink.IPVLAN_FLAG_BRIDGE:
		return fmt.Sprintf("%d with flag %d", own.Mode, own.Flag)
	case own.Mode == netlink.IPVLAN_MODE_L2:
		return modeL2
	case own.Mode == netlink.IPVLAN_MODE_L3:
		return "l3"
	case own.Mode == netlink.IPVLAN_MODE_L3S:
		return "l3s"
	}
	return fmt.Sprint(own.Mode)
}

// Explain knows why the kernel refuses an ipvlan.
func (links) Explain(err error, parent, _ string) error {
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: device %s is a port of a bridge or a bond, or has interfaces of type macvlan; "+
			"a device has interfaces of one type only: use another device, or networks of one type", err, parent)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: device %s is not an Ethernet; use another device", err, parent)
	}
	return err
}
