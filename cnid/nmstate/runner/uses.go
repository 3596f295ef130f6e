// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/sriov"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/nmstate/permit"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Uses are the parts of the network of a node that attachments, host links and the tunnel
// need. underlay finds the device with the address of the tunnel.
func Uses(
	s *store.Store,
	node string,
	records []journal.Record,
	underlay func(tunnel netip.Addr) (netdev.Underlay, error),
) []permit.Use {
	var state links.State
	var tunnel netip.Addr
	s.View(func(tx store.ReadTx) {
		state = links.StateOf(tx, node, records)
		tunnel, _ = plan.TunnelAddress(nil, store.GetNode(tx, node))
	})
	uses := usesOf(records, state.Wanted, sriov.NumberOf)
	for i := range uses {
		uses[i].Interface = deviceName(uses[i].Interface)
	}
	if device, err := underlay(tunnel); err == nil {
		uses = append(uses, tunnelUse(device, tunnel))
	}
	return uses
}

// deviceName returns the first name of a device. A device may also have alternative names.
func deviceName(name string) string {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return name
	}
	return link.Attrs().Name
}

// usesOf returns the uses by attachments and host links. number finds the device and number of a
// virtual function.
func usesOf(
	records []journal.Record,
	wanted []links.Wanted,
	number func(pci string) (string, int, error),
) []permit.Use {
	var uses []permit.Use
	for _, rec := range records {
		by := fmt.Sprintf("pod %s (interface %s)", rec.Pod, rec.IfName)
		if rec.Parent != "" {
			use := permit.Use{Interface: rec.Parent, MTU: rec.MTU, By: by}
			switch number, vxlan := rec.ParentLink(); {
			case vxlan:
				use.MTU = below(rec.MTU, true)
			default:
				use.VLAN = int(number)
			}
			uses = append(uses, use)
		}
		if rec.PCI == "" {
			continue
		}
		// A function that is gone has no settings that must stay.
		if pf, index, err := number(rec.PCI); err == nil {
			uses = append(uses, permit.Use{Interface: pf, VFs: index + 1, By: by})
		}
	}
	for _, w := range wanted {
		use := permit.Use{Interface: w.Device, MTU: below(w.MTU, w.Type == multinet.VXLAN), By: "host link " + w.String()}
		if w.Type == multinet.VLAN {
			use.VLAN = int(w.VNI)
		}
		uses = append(uses, use)
	}
	return uses
}

// below is the MTU that a device needs for one on it, 0 for any.
func below(mtu int, tunnel bool) int {
	if mtu > 0 && tunnel {
		return mtu + netdev.OverheadIPv4
	}
	return mtu
}

// tunnelUse returns the use by the tunnel between the nodes. The MTU of pods follows from its
// MTU.
func tunnelUse(underlay netdev.Underlay, address netip.Addr) permit.Use {
	overhead := netdev.OverheadIPv6
	if address.Is4() {
		overhead = netdev.OverheadIPv4
	}
	return permit.Use{
		Interface: underlay.Device,
		MTU:       underlay.PodMTU + overhead,
		Addresses: []netip.Addr{address},
		By:        "Alioth's tunnel",
	}
}
