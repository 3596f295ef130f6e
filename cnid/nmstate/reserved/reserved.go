// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reserved tells which interfaces of a node are no part of its own network: those
// of pods, and those of Alioth. The engine neither shows nor changes them.
package reserved

import (
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/hostlink/links"
	"github.com/alioth-net/alioth/cnid/netdev/hostdev"
)

// Is reports whether an interface is reserved: a device of Alioth, a link of a network
// with a VLAN or VXLAN, or the end of a pair whose other end is in another network
// namespace, which is a container's.
func Is(i document.Interface) bool {
	if hostdev.Managed(i.Name) {
		return true
	}
	if i.Description != nil {
		if _, marked := links.Marked(*i.Description); marked {
			return true
		}
	}
	return i.Type == document.VethPair && i.Veth != nil && i.Veth.Peer == ""
}
