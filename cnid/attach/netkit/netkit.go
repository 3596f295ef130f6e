// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netkit is the driver for pairs of netkit devices. They have a place for
// programs that run while the pod's end sends, which spares what they redirect the
// host end's queue. New in Linux 6.7, with Ethernet addresses at creation somewhat
// later, and an option of a kernel's build.
package netkit

import (
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attach/pair"
)

// Kind is the driver's, and the kernel's name of such devices.
const Kind attach.Kind = "netkit"

// Devices are what pairs of this kind consist of.
var Devices = pair.Devices{Kind: Kind, Hook: attach.HookPodEnd, Ends: ends}

func ends(host, pod netlink.LinkAttrs) netlink.Link {
	pair := &netlink.Netkit{
		LinkAttrs: host,
		// Whole frames, so that whatever holds for a veth holds here.
		Mode: netlink.NETKIT_MODE_L2,
		// To the pod goes what is sent out of the host end, as with a veth; from
		// the pod nothing, for as long as no program decides about it.
		Policy: netlink.NETKIT_POLICY_FORWARD, PeerPolicy: netlink.NETKIT_POLICY_BLACKHOLE,
		// No mark crosses, in either direction.
		Scrub: netlink.NETKIT_SCRUB_DEFAULT, PeerScrub: netlink.NETKIT_SCRUB_DEFAULT,
	}
	pair.SetPeerAttrs(&pod)
	return pair
}
