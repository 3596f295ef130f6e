// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Gateway asks whether a next hop answers: to an echo request (RFC 792, RFC 4443), or, as
// many gateways do not answer that, to a request for its Ethernet address.
func Gateway(ip netip.Addr) Probe {
	return Probe{Name: "gateway " + ip.String(), Check: func(ctx context.Context) error {
		err := request{to: ip}.send(ctx)
		if err == nil || resolved(ip) {
			return nil
		}
		return err
	}}
}

// resolved reports whether the kernel has confirmed the Ethernet address of a neighbour.
// The echo request has just made it ask, unless it knows.
func resolved(ip netip.Addr) bool {
	rows, err := netlink.NeighList(0, 0)
	if err != nil {
		return false
	}
	for _, row := range rows {
		if addr, ok := netip.AddrFromSlice(row.IP); ok && addr.Unmap() == ip && row.State&netlink.NUD_REACHABLE != 0 {
			return true
		}
	}
	return false
}

// FullSize asks whether a next hop answers to the largest packets of the interface that
// leads there, which no router may cut in pieces. The size is that of each moment: it
// grows and shrinks with the interface's MTU, so an MTU that the network does not carry is
// found, and one that it does carry passes.
func FullSize(ip netip.Addr) Probe {
	return Probe{Name: "gateway " + ip.String() + " with packets of full size", Check: func(ctx context.Context) error {
		mtu, err := mtuTo(ip)
		if err == nil {
			err = request{to: ip, size: mtu}.send(ctx)
		}
		if err != nil {
			return fmt.Errorf("packets of %d bytes: %w", mtu, err)
		}
		return nil
	}}
}

// mtuTo returns the MTU of the interface that leads to an address, in bytes.
func mtuTo(ip netip.Addr) (int, error) {
	var options netlink.RouteGetOptions
	options.Oif = ip.Zone()
	routes, err := netlink.RouteGetWithOptions(ip.AsSlice(), &options)
	if err != nil {
		return 0, fmt.Errorf("look up the route to %s: %w", ip, err)
	}
	if len(routes) == 0 {
		return 0, fmt.Errorf("no route leads to %s", ip)
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return 0, fmt.Errorf("look up the interface to %s: %w", ip, err)
	}
	return link.Attrs().MTU, nil
}
