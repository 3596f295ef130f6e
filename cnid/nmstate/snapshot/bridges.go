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

	"github.com/alioth-net/alioth/cnid/system/attribute"
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

// Numbers of include/uapi/linux/if_bridge.h. A dump has one message for each bridge, with
// lists in lists; a request has one group.
const (
	newGroup, delGroup, getGroup = 84, 85, 86 // RTM_NEWMDB, RTM_DELMDB, RTM_GETMDB
	headerOfGroup                = 8          // struct br_port_msg
	listOfGroups                 = 1          // MDBA_MDB, and in it MDBA_MDB_ENTRY and _ENTRY_INFO
	theGroup, detailsOfGroup     = 1, 2       // MDBA_SET_ENTRY, MDBA_SET_ENTRY_ATTRS
	sizeOfGroup                  = 28         // struct br_mdb_entry
	stateOfGroup, flagsOfGroup   = 4, 5       // in it
	shownSource, source          = 4, 1       // MDBA_MDB_EATTR_SOURCE, MDBE_ATTR_SOURCE
)

func groups() class {
	return class{getGroup, newGroup, delGroup, unix.NLM_F_CREATE | unix.NLM_F_REPLACE, headerOfGroup, always(), func(Message) {}}
}

// eachGroup returns the groups of a dump that somebody made, each as a request has it.
func eachGroup(bridges []Message) (list []Message) {
	for _, m := range bridges {
		for _, entries := range groups().attributes(m).Get(listOfGroups).All() {
			for _, shown := range entries.All() {
				if len(shown) >= sizeOfGroup && shown[stateOfGroup] != 0 {
					list = append(list, groupOf(m[:headerOfGroup], shown))
				}
			}
		}
	}
	return list
}

func groupOf(bridge Message, shown attribute.List) Message {
	group := append([]byte{}, shown[:sizeOfGroup]...)
	group[flagsOfGroup] = 0
	m := append(Message{}, bridge...)
	m[0] = unix.AF_BRIDGE // a dump has none
	m = appendAttribute(m, theGroup, group)
	if from := shown[sizeOfGroup:].Get(shownSource); from != nil {
		m = appendAttribute(m, detailsOfGroup|unix.NLA_F_NESTED, appendAttribute(nil, source, from))
	}
	return m
}

func portOfGroup(m Message) []byte { return groups().attributes(m).Get(theGroup) }

// restoreGroups adds the groups of multicast that bridges lack. A bridge that is down takes
// none.
func (p *planner) restoreGroups(before, now []Message) {
	c, have := groups(), canonical(groups(), now)
	for _, m := range before {
		group, bridge := portOfGroup(m), deviceOf(m)
		was := p.before[bridge]
		if have[c.canonical(m)] || len(group) < sizeOfGroup || was.index != 0 && was.flags&unix.IFF_UP == 0 || !p.has(bridge) {
			continue
		}
		if port := binary.NativeEndian.Uint32(group); p.has(port) {
			p.request(Request{What: fmt.Sprintf("add a group of %s", p.deviceName(m)), Kind: c.add, Flags: c.create, Body: m})
		}
	}
}
