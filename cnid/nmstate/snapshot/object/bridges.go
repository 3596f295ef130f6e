// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/binary"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// Attributes of tunnels (include/uapi/linux/if_bridge.h).
const (
	VLANTunnel = 3 // IFLA_BRIDGE_VLAN_TUNNEL_INFO
	TunnelID   = 1 // IFLA_BRIDGE_VLAN_TUNNEL_ID
	TunnelVLAN = 2 // IFLA_BRIDGE_VLAN_TUNNEL_VID
)

// TunnelsOf returns the tunnels of the VLANs of a port. A message has each one, or the first
// and the last of a row of VLANs and of a row of tunnels.
func TunnelsOf(m Message) map[uint16]uint32 {
	all := map[uint16]uint32{}
	var vid uint16
	var id uint32
	const flags, last = 3, nl.BRIDGE_VLAN_INFO_RANGE_END // IFLA_BRIDGE_VLAN_TUNNEL_FLAGS
	for kind, entry := range LinkOf(m).Get(unix.IFLA_AF_SPEC).All() {
		if kind != VLANTunnel {
			continue
		}
		if isLast := entry.Value(flags)&last != 0; isLast {
			for ; vid < uint16(entry.Value(TunnelVLAN)); vid, id = vid+1, id+1 {
				all[vid] = id
			}
		}
		vid, id = uint16(entry.Value(TunnelVLAN)), entry.Value(TunnelID)
		all[vid] = id
	}
	return all
}

// VLANsOf returns the VLANs of a port, with their flags (BRIDGE_VLAN_INFO_*).
func VLANsOf(m Message) map[uint16]uint16 {
	all := map[uint16]uint16{}
	for kind, entry := range LinkOf(m).Get(unix.IFLA_AF_SPEC).All() {
		if kind == nl.IFLA_BRIDGE_VLAN_INFO && len(entry) >= 4 {
			all[binary.NativeEndian.Uint16(entry[2:])] = binary.NativeEndian.Uint16(entry)
		}
	}
	return all
}

// Numbers of include/uapi/linux/if_bridge.h. A dump has one message for each bridge, with
// lists in lists; a request has one group.
const (
	newGroup, delGroup         = 84, 85 // RTM_NEWMDB, RTM_DELMDB
	GetGroup                   = 86     // RTM_GETMDB
	HeaderOfGroup              = 8      // struct br_port_msg
	listOfGroups               = 1      // MDBA_MDB, and in it MDBA_MDB_ENTRY and _ENTRY_INFO
	theGroup, detailsOfGroup   = 1, 2   // MDBA_SET_ENTRY, MDBA_SET_ENTRY_ATTRS
	SizeOfGroup                = 28     // struct br_mdb_entry
	stateOfGroup, flagsOfGroup = 4, 5   // in it
	shownSource, source        = 4, 1   // MDBA_MDB_EATTR_SOURCE, MDBE_ATTR_SOURCE
)

// Groups is the class of groups of multicast of bridges.
func Groups() Class {
	return Class{
		GetGroup,
		newGroup,
		delGroup,
		unix.NLM_F_CREATE | unix.NLM_F_REPLACE,
		HeaderOfGroup,
		always(),
		func(Message) {},
	}
}

// EachGroup returns the groups of a dump that somebody made, each as a request has it.
func EachGroup(bridges []Message) (list []Message) {
	for _, m := range bridges {
		for _, entries := range Groups().Attributes(m).Get(listOfGroups).All() {
			for _, shown := range entries.All() {
				if len(shown) >= SizeOfGroup && shown[stateOfGroup] != 0 {
					list = append(list, groupOf(m[:HeaderOfGroup], shown))
				}
			}
		}
	}
	return list
}

func groupOf(bridge Message, shown attribute.List) Message {
	group := append([]byte{}, shown[:SizeOfGroup]...)
	group[flagsOfGroup] = 0
	m := append(Message{}, bridge...)
	m[0] = unix.AF_BRIDGE // a dump has none
	m = AppendAttribute(m, theGroup, group)
	if from := shown[SizeOfGroup:].Get(shownSource); from != nil {
		m = AppendAttribute(m, detailsOfGroup|unix.NLA_F_NESTED, AppendAttribute(nil, source, from))
	}
	return m
}

// PortOfGroup returns the group of a message, which begins with the index of its port.
func PortOfGroup(m Message) []byte { return Groups().Attributes(m).Get(theGroup) }
