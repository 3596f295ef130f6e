// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package veth is the driver for pairs of virtual Ethernet devices, which every
// kernel has. The host end receives the pod's packets, and programs process them
// there.
package veth

import (
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/pair"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// Kind is the driver's, and the kernel's name of such devices.
const Kind ifdriver.Kind = "veth"

// Devices describes the pairs of this kind.
var Devices = pair.Devices{Kind: Kind, Hook: ifdriver.HookHostEnd, Ends: ends}

func ends(host, pod netlink.LinkAttrs) netlink.Link {
	return &netlink.Veth{
		LinkAttrs: host, PeerName: pod.Name, PeerHardwareAddr: pod.HardwareAddr, PeerMTU: uint32(pod.MTU),
		PeerTxQLen: -1, PeerNamespace: pod.Namespace,
	}
}
