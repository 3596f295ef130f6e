// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
)

// restoreVLANs gives ports of bridges, and bridges themselves, their VLANs back.
func (p *planner) restoreVLANs(before, now []Message) {
	have := map[uint32]map[uint16]uint16{}
	for _, m := range now {
		have[object.DeviceOf(m)] = object.VLANsOf(m)
	}
	for _, m := range before {
		was, is := object.VLANsOf(m), have[object.DeviceOf(m)]
		if p.now[object.DeviceOf(m)].Controller != p.before[object.DeviceOf(m)].Controller {
			continue // the next look finds it attached
		}
		for _, vid := range slices.Sorted(maps.Keys(is)) {
			if _, ok := was[vid]; !ok {
				p.vlan(object.DeviceOf(m), unix.RTM_DELLINK, vid, is[vid])
			}
		}
		for _, vid := range slices.Sorted(maps.Keys(was)) {
			if flags, ok := is[vid]; !ok || flags != was[vid] {
				p.vlan(object.DeviceOf(m), unix.RTM_SETLINK, vid, was[vid])
			}
		}
	}
}

// restoreTunnels gives VLANs of ports the numbers of their tunnels back.
func (p *planner) restoreTunnels(before, now []Message) {
	have := map[uint32]map[uint16]uint32{}
	for _, m := range now {
		have[object.DeviceOf(m)] = object.TunnelsOf(m)
	}
	for _, m := range before {
		was, is := object.TunnelsOf(m), have[object.DeviceOf(m)]
		for _, vid := range slices.Sorted(maps.Keys(is)) {
			if _, ok := was[vid]; !ok {
				p.tunnel(object.DeviceOf(m), unix.RTM_DELLINK, vid, is[vid])
			}
		}
		for _, vid := range slices.Sorted(maps.Keys(was)) {
			if id, ok := is[vid]; p.has(object.DeviceOf(m)) && (!ok || id != was[vid]) {
				p.tunnel(object.DeviceOf(m), unix.RTM_SETLINK, vid, was[vid])
			}
		}
	}
}

func (p *planner) tunnel(index uint32, kind int, vid uint16, id uint32) {
	info := object.AppendAttribute(nil, object.TunnelID, binary.NativeEndian.AppendUint32(nil, id))
	info = object.AppendAttribute(info, object.TunnelVLAN, binary.NativeEndian.AppendUint16(nil, vid))
	b := object.About(index)
	b.Body[0] = unix.AF_BRIDGE
	b.Add(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, object.AppendAttribute(nil, object.VLANTunnel|unix.NLA_F_NESTED, info))
	p.request(
		Request{What: fmt.Sprintf("tunnel %d of VLAN %d of %s", id, vid, p.before[index].Name), Kind: kind, Body: b.Body},
	)
}

func (p *planner) vlan(index uint32, kind int, vid, flags uint16) {
	b := object.About(index)
	b.Body[0] = unix.AF_BRIDGE
	var list []byte
	if p.now[index].Driver == "bridge" && p.now[index].Controller == 0 {
		list = object.AppendAttribute(list, nl.IFLA_BRIDGE_FLAGS, binary.NativeEndian.AppendUint16(nil, nl.BRIDGE_FLAGS_SELF))
	}
	info := binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, flags), vid)
	list = object.AppendAttribute(list, nl.IFLA_BRIDGE_VLAN_INFO, info)
	b.Add(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, list)
	p.request(Request{What: fmt.Sprintf("VLAN %d of %s", vid, p.before[index].Name), Kind: kind, Body: b.Body})
}

// restoreGroups adds the groups of multicast that bridges lack. A bridge that is down takes
// none.
func (p *planner) restoreGroups(before, now []Message) {
	c, have := object.Groups(), canonical(object.Groups(), now)
	for _, m := range before {
		group, bridge := object.PortOfGroup(m), object.DeviceOf(m)
		was := p.before[bridge]
		if have[c.Canonical(m)] || len(group) < object.SizeOfGroup || was.Index != 0 && was.Flags&unix.IFF_UP == 0 ||
			!p.has(bridge) {
			continue
		}
		if port := binary.NativeEndian.Uint32(group); p.has(port) {
			p.request(Request{What: fmt.Sprintf("add a group of %s", p.deviceName(m)), Kind: c.Add, Flags: c.Create, Body: m})
		}
	}
}
