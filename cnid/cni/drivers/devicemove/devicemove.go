// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package devicemove moves network devices of the node into pods and back, and gives them back
// the state that they had. Whose they are is the callers' matter.
package devicemove

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Device is a network device as it was on the node.
type Device struct {
	Name     string           `json:"name"`
	AltNames []string         `json:"altNames,omitempty"`
	Alias    string           `json:"alias,omitempty"`
	MAC      net.HardwareAddr `json:"mac"`
	MTU      int              `json:"mtu"`
	// Group is the group of devices (IFLA_GROUP). A pod may have set another group, even the
	// group of the host ends of pods.
	Group uint32 `json:"group,omitempty"`
	Up    bool   `json:"up"`
}

// Of returns the state of a device.
func Of(link netlink.Link) *Device {
	a := link.Attrs()
	return &Device{
		Name: a.Name, AltNames: slices.Clone(a.AltNames), Alias: a.Alias, MAC: bytes.Clone(a.HardwareAddr), MTU: a.MTU,
		Group: a.Group, Up: a.Flags&net.FlagUp != 0,
	}
}

// Move moves a network device into another namespace, under a temporary name. The kernel
// takes its addresses and routes away.
func Move(h *rtnl.Socket, link netlink.Link, to int, name string) error {
	attrs := link.Attrs()
	var b rtnl.Batch
	b.SetLink(fmt.Sprintf("set %s down", attrs.Name), attrs.Index, 0, unix.IFF_UP)
	b.SetLink(fmt.Sprintf("move %s to another network namespace", attrs.Name), attrs.Index, 0, 0,
		nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(to))), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	return h.Execute(&b)
}

// Return moves a device from its pod to the node, as Move does. A second name that the node has,
// too, would keep the device in the pod. So the names that the device did not have on the node go
// first.
func (d Device) Return(h *rtnl.Socket, link netlink.Link, to int, name string) error {
	return errors.Join(d.dropNames(h, link), Move(h, link, to, name))
}

// Restore gives a network device of the node the state that it had. Its name may be its name in
// the pod, or a name that the kernel has chosen. setMAC sets an Ethernet address.
func (d Device) Restore(h *rtnl.Socket, link netlink.Link, setMAC func(netlink.Link, net.HardwareAddr) error) error {
	name, index := link.Attrs().Name, link.Attrs().Index
	if err := h.LinkSetDown(link); err != nil {
		return fmt.Errorf("set %s down: %w", name, err)
	}
	// First, so that a failure below leaves no name of a pod.
	err := d.rename(h, link)
	var b rtnl.Batch
	b.SetLink(
		"set alias and group",
		index,
		0,
		0,
		nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(d.Alias)),
		nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(d.Group)),
	)
	if link.Attrs().MTU != d.MTU {
		b.SetLink(fmt.Sprintf("set MTU %d", d.MTU), index, 0, 0, nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(d.MTU))))
	}
	if d.Up {
		b.SetUp("set it up", index)
	}
	return errors.Join(err, setMAC(link, d.MAC), h.Execute(&b))
}

func (d Device) rename(h *rtnl.Socket, link netlink.Link) error {
	attrs := link.Attrs()
	errs := []error{d.dropNames(h, link)}
	if attrs.Name != d.Name {
		if err := h.LinkSetName(link, d.Name); err != nil {
			errs = append(errs, fmt.Errorf("rename %s to %s (does another device have the name?): %w", attrs.Name, d.Name, err))
		}
	}
	for _, alt := range d.AltNames {
		if !slices.Contains(attrs.AltNames, alt) {
			errs = append(errs, h.LinkAddAltName(link, alt))
		}
	}
	return errors.Join(errs...)
}

// dropNames removes the second names that the device had not.
func (d Device) dropNames(h *rtnl.Socket, link netlink.Link) error {
	var errs []error
	for _, alt := range link.Attrs().AltNames {
		if !slices.Contains(d.AltNames, alt) {
			errs = append(errs, h.LinkDelAltName(link, alt))
		}
	}
	return errors.Join(errs...)
}
