// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/devicemove"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// note describes an interface from before its VF is changed until the VF has its former state. It
// names the owner of the VF too.
type note struct {
	sandbox.Interface
	PCI string `json:"pci"`
	// MTU is the wanted MTU in bytes, 0 for the MTU of the VF.
	MTU int `json:"mtu,omitempty"`
	// Saved are the settings of the VF before.
	Saved settings `json:"saved"`
	// Device is the network device of the VF before, nil for one that a program drives.
	Device *devicemove.Device `json:"device,omitempty"`
}

// temporaryPrefix starts the name of a network device on its way between two namespaces, and
// of a dummy below a VLAN.
const temporaryPrefix = "als"

func (n note) temporary() string {
	return ifdriver.DeviceName(temporaryPrefix, n.ContainerID, n.IfName)
}

// standsIn reports whether a device of the pod's namespace is a dummy that stands for the VF, or
// the VLAN on top of it. The alias of both is the PCI address; programs with DPDK find the VF by
// it. An unfinished device has its temporary name.
func (n note) standsIn(link netlink.Link) bool {
	if kind := link.Type(); kind != "dummy" && kind != "vlan" {
		return false
	}
	return link.Attrs().Alias == n.PCI || link.Attrs().Name == n.temporary()
}
