// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

func (p *problems) checkPortVLAN(path string, v *document.PortVLAN) {
	p.word(path+".mode", v.Mode, document.PortAccess, document.PortTrunk)
	p.within(path+".tag", v.Tag, 1, maxVLAN)
	if v.Mode == document.PortAccess && len(v.TrunkTags) > 0 {
		p.add(path+".trunk-tags", "an access port has no trunk tags: remove them, or set mode to trunk")
	}
	if v.Mode == document.PortAccess && v.EnableNative != nil && *v.EnableNative {
		p.add(path+".enable-native", "true: an access port has no native VLAN: remove it, or set mode to trunk")
	}
	if v.Mode == document.PortAccess && v.Tag == nil {
		p.add(path+".tag", "missing: an access port needs one")
	}
	if v.Mode == document.PortTrunk && v.Tag != nil && !isTrue(v.EnableNative) {
		p.add(path+".tag", "%d: a trunk has one for untagged frames only: set enable-native to true, or remove tag", *v.Tag)
	}
	if v.Mode == "" && (v.Tag != nil || len(v.TrunkTags) > 0) {
		p.add(path+".mode", "missing: want access or trunk")
	}
	for n, tag := range v.TrunkTags {
		p.checkTag(fmt.Sprintf("%s.trunk-tags[%d]", path, n), tag)
	}
}

func (p *problems) checkTag(path string, tag document.TrunkTag) {
	if (tag.ID == nil) == (tag.Range == nil) {
		p.add(path, "want either id or id-range")
	}
	p.within(path+".id", tag.ID, 1, maxVLAN)
	if r := tag.Range; r != nil {
		p.within(path+".id-range.min", &r.Min, 1, maxVLAN)
		p.within(path+".id-range.max", &r.Max, 1, maxVLAN)
		if r.Min > r.Max {
			p.add(path+".id-range", "%d to %d: want min at most max", r.Min, r.Max)
		}
	}
}

// unfiltered are the bridges whose filter of VLANs the document turns off: it takes VLANs off a
// port, and no port has VLANs afterwards.
func (r *resolution) unfiltered() (bridges []string) {
	for _, name := range r.names() {
		want, now := r.final[name], r.current[name]
		if gone(*want) || want.Bridge == nil || !FiltersVLANs(now.Bridge) {
			continue
		}
		takes := func(port document.BridgePort) bool { return port.VLAN != nil && port.VLAN.Mode == "" }
		keeps := func(port document.BridgePort) bool {
			return port.VLAN != nil && port.VLAN.Mode != "" || port.VLAN == nil && hasVLANs(now, port.Name)
		}
		if slices.ContainsFunc(want.Bridge.Ports, takes) && !slices.ContainsFunc(want.Bridge.Ports, keeps) {
			bridges = append(bridges, name)
		}
	}
	return bridges
}

// hasVLANs reports whether a port of a bridge has VLANs, but for the one of new ports.
func hasVLANs(bridge document.Interface, port string) bool {
	at := slices.IndexFunc(bridge.Bridge.Ports, func(p document.BridgePort) bool { return p.Name == port })
	return at >= 0 && bridge.Bridge.Ports[at].VLAN != nil && !OfNewPort(*bridge.Bridge.Ports[at].VLAN, bridge)
}

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
