// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netkit is the driver for pairs of netkit devices. They have a hook for
// programs that run while the pod's end sends, so redirected packets skip the host end's
// queue. The devices are new in Linux 6.7, with Ethernet addresses at creation somewhat
// later, and an option of a kernel's build.
package netkit

import (
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/pair"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// Kind is the driver's, and the kernel's name of such devices.
const Kind ifdriver.Kind = "netkit"

// Devices describes the pairs of this kind.
var Devices = pair.Devices{
	Kind: Kind, Hook: ifdriver.HookPodEnd, Requires: "Linux 6.7 built with CONFIG_NETKIT", Ends: ends,
}

func ends(host, pod netlink.LinkAttrs) netlink.Link {
	pair := &netlink.Netkit{
		LinkAttrs: host,
		// Whole frames, as on a veth.
		Mode: netlink.NETKIT_MODE_L2,
		// Packets that the host end sends reach the pod, as with a veth. Packets of the
		// pod are dropped while no program is attached.
		Policy: netlink.NETKIT_POLICY_FORWARD, PeerPolicy: netlink.NETKIT_POLICY_BLACKHOLE,
		// No mark crosses, in either direction.
		Scrub: netlink.NETKIT_SCRUB_DEFAULT, PeerScrub: netlink.NETKIT_SCRUB_DEFAULT,
	}
	pair.SetPeerAttrs(&pod)
	return pair
}
