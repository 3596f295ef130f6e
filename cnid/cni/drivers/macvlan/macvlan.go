// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package macvlan is the driver for interfaces that share a device of the node, each with
// an Ethernet address of its own. The network of that device sees the pod as one more
// host. Interfaces of one device reach each other in mode bridge, over a switch that
// returns packets in mode vepa, and not at all in mode private. In mode passthru an
// interface has its device for itself, which has the interface's address meanwhile.
package macvlan

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cnid/cni/drivers/child"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// Kind is the driver's, and the kernel's name of such devices.
const Kind ifdriver.Kind = "macvlan"

// Devices describes the interfaces of this kind.
var Devices = child.Devices{
	Kind: Kind, Modes: annotations.Modes, Requires: "the kernel module macvlan", Links: links{},
}

// links implements child.Links.
type links struct{}

var modes = map[string]netlink.MacvlanMode{
	annotations.ModeBridge: netlink.MACVLAN_MODE_BRIDGE, annotations.ModePrivate: netlink.MACVLAN_MODE_PRIVATE,
	annotations.ModeVEPA: netlink.MACVLAN_MODE_VEPA, annotations.ModePassthru: netlink.MACVLAN_MODE_PASSTHRU,
}

// New implements child.Links.
func (links) New(attrs netlink.LinkAttrs, mode string) netlink.Link {
	return &netlink.Macvlan{LinkAttrs: attrs, Mode: modes[mode]}
}

// ModeOf implements child.Links.
func (links) ModeOf(link netlink.Link) string {
	if own, ok := link.(*netlink.Macvlan); ok {
		for name, mode := range modes {
			if mode == own.Mode {
				return name
			}
		}
	}
	return "unknown"
}

// Explain knows why the kernel refuses a macvlan.
func (links) Explain(err error, parent, mode string) error {
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf(
			"%w: device %s is a port of a bridge or a bond, or has interfaces of type ipvlan; a device has interfaces of one type only: use another device, or networks of one type",
			err,
			parent,
		)
	case errors.Is(err, unix.EINVAL) && mode == annotations.ModePassthru:
		return fmt.Errorf(
			"%w: mode %s needs device %s for one interface alone, and the device must be an Ethernet; use another device, or mode bridge",
			err,
			mode,
			parent,
		)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf(
			"%w: device %s is not an Ethernet, or one interface in mode %s has it for itself; use another device",
			err,
			parent,
			annotations.ModePassthru,
		)
	}
	return err
}
