// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// OfNewPort reports whether VLANs of a port are those that a bridge gives a new one: none, or
// its default one.
func OfNewPort(v document.PortVLAN, bridge document.Interface) bool {
	standard := 1
	if bridge.Bridge != nil && bridge.Bridge.Options != nil && bridge.Bridge.Options.VLANDefaultPVID != nil {
		standard = *bridge.Bridge.Options.VLANDefaultPVID
	}
	if len(v.TrunkTags) > 0 {
		return false
	}
	return v.Tag == nil || v.Mode == document.PortAccess && *v.Tag == standard
}

// FiltersVLANs reports whether a bridge is shown to filter VLANs: only then its ports show
// VLANs, at least an empty list. A bridge without ports does not show it.
func FiltersVLANs(b *document.Bridge) bool {
	return b != nil && slices.ContainsFunc(b.Ports, func(port document.BridgePort) bool { return port.VLAN != nil })
}
