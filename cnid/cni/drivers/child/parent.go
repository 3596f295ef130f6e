// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cnid/cni/drivers/carrier"
	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// mode returns the mode of a wanted interface.
func (d Devices) mode(spec ifdriver.Spec) (string, error) {
	if spec.Mode == "" {
		return d.Modes[0], nil
	}
	if !slices.Contains(d.Modes, spec.Mode) {
		return "", fmt.Errorf("a %s has no mode %q; use one of %s", d.Kind, spec.Mode, strings.Join(d.Modes, ", "))
	}
	return spec.Mode, nil
}

// parent returns the device of the node that a wanted interface is derived from, if possible: the
// network's description names the device, and the node may lack it or use it for something else.
// A device of Alioth is refused: its packets belong to a VPC.
func (d *session) parent(spec ifdriver.Spec) (netlink.Link, error) {
	if len(spec.MAC) != 6 && !d.devices.SharesMAC {
		return nil, fmt.Errorf("a %s needs an Ethernet address, got %q", d.devices.Kind, spec.MAC)
	}
	if spec.Parent == "" {
		return nil, fmt.Errorf("the network names no device of the node; a %s is derived from one", d.devices.Kind)
	}
	parent, err := d.host.LinkByName(spec.Parent)
	if podside.IsNotFound(err) {
		return nil, fmt.Errorf("the node has no device %s; create it, or correct the device in the network", spec.Parent)
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", spec.Parent, err)
	}
	attrs := parent.Attrs() // spec.Parent may be another name of the device
	_, isLink := links.Marked(attrs.Alias)
	switch {
	case isLink && !spec.OnLink:
		return nil, fmt.Errorf(
			"device %s is a link of networks with a VLAN or VXLAN; name its parent and number in the network",
			spec.Parent,
		)
	case hostdev.Managed(attrs.Name):
		return nil, fmt.Errorf("device %s belongs to Alioth; name another device in the network", attrs.Name)
	case len(attrs.HardwareAddr) != 6:
		return nil, fmt.Errorf("device %s is not an Ethernet; use another device", spec.Parent)
	}
	if err := podside.CheckCarrier(parent, spec.Parent, spec.MTU); err != nil {
		return nil, err
	}
	return parent, d.permit(attrs, spec.Mode)
}

// permit refuses a device that sends frames to an address of the node without a guarding program:
// a pod could send as a node, and so enter VPCs. In mode passthru it would receive the node's
// packets too.
func (d *session) permit(parent *netlink.LinkAttrs, mode string) error {
	if d.place == nil {
		return nil
	}
	underlay, err := d.place.Underlay()
	if err != nil || len(underlay.Addrs) == 0 {
		return err
	}
	alone := mode == annotations.ModePassthru
	guarded := func(ifindex int) bool { return !alone && ifindex == underlay.Guarded && ifindex == parent.Index }
	a, ok, err := carrier.Carried(d.host.Handle, parent, 0, func(a carrier.Address) bool {
		return slices.Contains(underlay.Addrs, a.IP) && !guarded(a.Ifindex)
	})
	if err != nil || !ok {
		return err
	}
	why := "no program keeps the pod from sending there as a node"
	switch {
	case alone:
		why = fmt.Sprintf("in mode %s the pod would have the device for itself", mode)
	case underlay.Guarded == 0:
		why = "the program that keeps the pod from sending there as a node is not loaded yet"
	}
	return fmt.Errorf("device %s reaches the node's address %s (on %s), and %s: "+
		"use another device, or a network with a vlan of its own, or permit it (multiNetwork.underlayAttachments of the chart)", parent.Name, a.IP, a.Device, why)
}
