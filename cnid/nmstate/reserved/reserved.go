// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reserved tells which interfaces of a node do not belong to its own network: the devices
// of pods, and the devices of Alioth. The engine neither shows nor changes them.
package reserved

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
)

// Is reports whether an interface is reserved: a device of Alioth, a link of a network
// with a VLAN or VXLAN, or the end of a pair whose other end is in another network
// namespace, which is a container's. Package host shows uplinks of that kind as hardware,
// before.
func Is(i document.Interface) bool {
	if hostdev.Managed(i.Name) || marked(i) {
		return true
	}
	return i.Type == document.VethPair && i.Veth != nil && i.Veth.Peer == ""
}

// Addresses returns a function that reports whether an address belongs to Alioth. Such an address
// is in a range of shadow addresses; Alioth puts one address per family on a node's device.
func Addresses(shadows []netip.Prefix) func(netip.Prefix) bool {
	return func(address netip.Prefix) bool {
		return slices.ContainsFunc(shadows, func(shadow netip.Prefix) bool { return shadow.Contains(address.Addr()) })
	}
}
