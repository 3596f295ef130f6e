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
)

// restoreVLANs gives ports of bridges, and bridges themselves, their VLANs back.
func (p *planner) restoreVLANs(before, now []Message) {
	have := map[uint32]map[uint16]uint16{}
	for _, m := range now {
		have[deviceOf(m)] = vlansOf(m)
	}
	for _, m := range before {
		was, is := vlansOf(m), have[deviceOf(m)]
		if p.now[deviceOf(m)].controller != p.before[deviceOf(m)].controller {
			continue // the next look finds it attached
		}
		for _, vid := range slices.Sorted(maps.Keys(is)) {
			if _, ok := was[vid]; !ok {
				p.vlan(deviceOf(m), unix.RTM_DELLINK, vid, is[vid])
			}
		}
		for _, vid := range slices.Sorted(maps.Keys(was)) {
			if flags, ok := is[vid]; !ok || flags != was[vid] {
				p.vlan(deviceOf(m), unix.RTM_SETLINK, vid, was[vid])
			}
		}
	}
}

// restoreTunnels gives VLANs of ports the numbers of their tunnels back.
func (p *planner) restoreTunnels(before, now []Message) {
	have := map[uint32]map[uint16]uint32{}
	for _, m := range now {
		have[deviceOf(m)] = tunnelsOf(m)
	}
	for _, m := range before {
		was, is := tunnelsOf(m), have[deviceOf(m)]
		for _, vid := range slices.Sorted(maps.Keys(is)) {
			if _, ok := was[vid]; !ok {
				p.tunnel(deviceOf(m), unix.RTM_DELLINK, vid, is[vid])
			}
		}
		for _, vid := range slices.Sorted(maps.Keys(was)) {
			if id, ok := is[vid]; p.has(deviceOf(m)) && (!ok || id != was[vid]) {
				p.tunnel(deviceOf(m), unix.RTM_SETLINK, vid, was[vid])
			}
		}
	}
}

// Attributes of tunnels (include/uapi/linux/if_bridge.h).
const (
	vlanTunnel = 3 // IFLA_BRIDGE_VLAN_TUNNEL_INFO
	tunnelID   = 1 // IFLA_BRIDGE_VLAN_TUNNEL_ID
	tunnelVLAN = 2 // IFLA_BRIDGE_VLAN_TUNNEL_VID
)

// tunnelsOf returns the tunnels of the VLANs of a port. A message has each one, or the first
// and the last of a row of VLANs and of a row of tunnels.
func tunnelsOf(m Message) map[uint16]uint32 {
	all := map[uint16]uint32{}
	var vid uint16
	var id uint32
	const flags, last = 3, nl.BRIDGE_VLAN_INFO_RANGE_END // IFLA_BRIDGE_VLAN_TUNNEL_FLAGS
	for kind, entry := range linkOf(m).Get(unix.IFLA_AF_SPEC).All() {
		if kind != vlanTunnel {
			continue
		}
		if isLast := entry.Value(flags)&last != 0; isLast {
			for ; vid < uint16(entry.Value(tunnelVLAN)); vid, id = vid+1, id+1 {
				all[vid] = id
			}
		}
		vid, id = uint16(entry.Value(tunnelVLAN)), entry.Value(tunnelID)
		all[vid] = id
	}
	return all
}

func (p *planner) tunnel(index uint32, kind int, vid uint16, id uint32) {
	info := appendAttribute(nil, tunnelID, binary.NativeEndian.AppendUint32(nil, id))
	info = appendAttribute(info, tunnelVLAN, binary.NativeEndian.AppendUint16(nil, vid))
	b := about(index)
	b.body[0] = unix.AF_BRIDGE
	b.add(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, appendAttribute(nil, vlanTunnel|unix.NLA_F_NESTED, info))
	p.request(Request{What: fmt.Sprintf("tunnel %d of VLAN %d of %s", id, vid, p.before[index].name), Kind: kind, Body: b.body})
}

// vlansOf returns the VLANs of a port, with their flags (BRIDGE_VLAN_INFO_*).
func vlansOf(m Message) map[uint16]uint16 {
	all := map[uint16]uint16{}
	for kind, entry := range linkOf(m).Get(unix.IFLA_AF_SPEC).All() {
		if kind == nl.IFLA_BRIDGE_VLAN_INFO && len(entry) >= 4 {
			all[binary.NativeEndian.Uint16(entry[2:])] = binary.NativeEndian.Uint16(entry)
		}
	}
	return all
}

func (p *planner) vlan(index uint32, kind int, vid, flags uint16) {
	b := about(index)
	b.body[0] = unix.AF_BRIDGE
	var list []byte
	if p.now[index].driver == "bridge" && p.now[index].controller == 0 {
		list = appendAttribute(list, nl.IFLA_BRIDGE_FLAGS, binary.NativeEndian.AppendUint16(nil, nl.BRIDGE_FLAGS_SELF))
	}
	info := binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, flags), vid)
	list = appendAttribute(list, nl.IFLA_BRIDGE_VLAN_INFO, info)
	b.add(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, list)
	p.request(Request{What: fmt.Sprintf("VLAN %d of %s", vid, p.before[index].name), Kind: kind, Body: b.body})
}
