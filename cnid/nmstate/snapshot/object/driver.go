// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/vishvananda/netlink/nl"

	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// Driver describes the attributes of the devices, or the ports, of one kind in an image. Its
// numbers come from include/uapi/linux/if_link.h.
type Driver struct {
	// first are the attributes that a new device is made with, nil for all: the others are
	// set afterwards.
	first []uint16
	// changes reports whether an attribute is a setting that can change.
	changes func(kind uint16) bool
	// emptied are settings that the kernel shows only if there is one, with the content that
	// clears each.
	emptied map[uint16][]byte
	// Stopped are settings that the kernel takes while the device is down, and Alone those that
	// it takes while the device has no ports either.
	Stopped, Alone []uint16
	// refused are shown, and refused from whoever sets them.
	refused []uint16
	// masked are attributes that the kernel shows with a mask of all bits. It refuses bits
	// without a meaning.
	masked []uint16
	// marks are shown as a number, and set by an attribute without content.
	marks []uint16
}

// Creation returns the attributes of a new device.
func (d Driver) Creation(data attribute.List) (out []byte) {
	for kind, content := range data.All() {
		switch {
		case slices.Contains(d.refused, kind), d.first != nil && !slices.Contains(d.first, kind):
		case !slices.Contains(d.marks, kind):
			out = AppendAttribute(out, kind, d.Content(kind, content))
		case bytes.ContainsFunc(content, func(r rune) bool { return r != 0 }):
			out = AppendAttribute(out, kind, nil)
		}
	}
	return out
}

// Content returns an attribute as a request has it.
func (d Driver) Content(kind uint16, content []byte) []byte {
	if !slices.Contains(d.masked, kind) || len(content) < 8 {
		return content
	}
	const all = 0x1f // VLAN_FLAG_REORDER_HDR to VLAN_FLAG_BRIDGE_BINDING
	return binary.NativeEndian.AppendUint32(slices.Clone(content[:4]), all)
}

// Changed returns the settings that differ, in the kernel's order.
func (d Driver) Changed(was, is attribute.List) (list []Pair) {
	for setting, content := range was.All() {
		if d.changes(setting) && !bytes.Equal(content, is.Get(setting)) {
			list = append(list, Pair{setting, content})
		}
	}
	for _, setting := range slices.Sorted(maps.Keys(d.emptied)) {
		if was.Get(setting) == nil && is.Get(setting) != nil {
			list = append(list, Pair{setting, d.emptied[setting]})
		}
	}
	return list
}

func none(uint16) bool { return false }
func only(kinds ...uint16) func(uint16) bool {
	return func(kind uint16) bool { return slices.Contains(kinds, kind) }
}

func but(kinds ...uint16) func(uint16) bool {
	return func(kind uint16) bool { return !slices.Contains(kinds, kind) }
}

// except is but for a range of numbers.
func except(first, last uint16, changes func(uint16) bool) func(uint16) bool {
	return func(kind uint16) bool { return (kind < first || kind > last) && changes(kind) }
}

// Settings of bridges and their ports that are states, counters, timers or commands.
const (
	firstState, lastState         = 10, 19 // IFLA_BR_ROOT_ID to IFLA_BR_GC_TIMER
	brFlush                       = 21     // IFLA_BR_FDB_FLUSH
	brPad                         = 40     // IFLA_BR_PAD
	brQuerier                     = 47     // IFLA_BR_MCAST_QUERIER_STATE
	brLearned                     = 48     // IFLA_BR_FDB_N_LEARNED
	brElasticity                  = 26     // IFLA_BR_MCAST_HASH_ELASTICITY, without effect
	portState                     = 1      // IFLA_BRPORT_STATE
	firstPortState, lastPortState = 13, 24 // IFLA_BRPORT_ROOT_ID to IFLA_BRPORT_FLUSH
	portPad                       = 26     // IFLA_BRPORT_PAD
	firstRing, lastRing           = 35, 36 // IFLA_BRPORT_MRP_RING_OPEN, _MRP_IN_OPEN
	portHosts                     = 38     // IFLA_BRPORT_MCAST_EHT_HOSTS_CNT
	portGroups                    = 41     // IFLA_BRPORT_MCAST_N_GROUPS
	portBackup                    = 34     // IFLA_BRPORT_BACKUP_PORT
	portBackupHop                 = 44     // IFLA_BRPORT_BACKUP_NHID
)

// Settings of other kinds.
const (
	bondPortKey               = 25   // IFLA_BOND_AD_USER_PORT_KEY
	bondDynamic               = 27   // IFLA_BOND_TLB_DYNAMIC_LB
	bondActive                = 29   // IFLA_BOND_AD_LACP_ACTIVE
	slaveQueue, slavePriority = 5, 9 // IFLA_BOND_SLAVE_QUEUE_ID, IFLA_BOND_SLAVE_PRIO
	macvlanMode, macvlanFlags = 1, 2
	macvlanQueue              = 7 // IFLA_MACVLAN_BC_QUEUE_LEN
	macvlanCutoff             = 9 // IFLA_MACVLAN_BC_CUTOFF
	ipvlanMode, ipvlanFlags   = 1, 2
	vxlanAgeing, vxlanLearns  = 8, 7
	VXLANBase                 = 3  // IFLA_VXLAN_LINK
	vxlanTTL                  = 28 // IFLA_VXLAN_TTL_INHERIT
	vxlanReserved             = 33 // IFLA_VXLAN_RESERVED_BITS
	addressesOfARP            = nl.IFLA_BOND_ARP_IP_TARGET
	addressesOfND             = 31 // IFLA_BOND_NS_IP6_TARGET
)

// OfDevices are the drivers of virtual devices whose settings change. Devices of others are
// made again as they were, and do not change.
func OfDevices(kind string) Driver {
	switch kind {
	case "bridge":
		states := except(firstState, lastState, but(0, brFlush, brPad, brQuerier, brLearned, brElasticity))
		return Driver{first: []uint16{}, changes: states}
	case "bond":
		return Driver{
			first: []uint16{nl.IFLA_BOND_MODE}, changes: but(0, nl.IFLA_BOND_ACTIVE_SLAVE, nl.IFLA_BOND_AD_INFO),
			emptied: map[uint16][]byte{addressesOfARP: nil, addressesOfND: nil, nl.IFLA_BOND_PRIMARY: make([]byte, 4)},
			Stopped: []uint16{
				nl.IFLA_BOND_AD_LACP_RATE,
				nl.IFLA_BOND_AD_SELECT,
				bondPortKey,
				bondDynamic,
				bondActive,
				nl.IFLA_BOND_MODE,
			},
			Alone: []uint16{nl.IFLA_BOND_MODE, nl.IFLA_BOND_FAIL_OVER_MAC},
		}
	case "vlan":
		flags := []uint16{nl.IFLA_VLAN_FLAGS}
		return Driver{changes: only(flags...), masked: flags, emptied: map[uint16][]byte{nl.IFLA_VLAN_FLAGS: make([]byte, 8)}}
	case "macvlan", "macvtap":
		settings := []uint16{macvlanMode, macvlanFlags, macvlanQueue, macvlanCutoff}
		return Driver{changes: only(settings...), first: settings}
	case "ipvlan", "ipvtap":
		return Driver{changes: only(ipvlanMode, ipvlanFlags), first: []uint16{ipvlanMode, ipvlanFlags}}
	case "vxlan":
		return Driver{changes: only(vxlanAgeing, vxlanLearns), marks: []uint16{vxlanTTL}, refused: []uint16{vxlanReserved}}
	}
	return Driver{changes: none}
}

// OfPorts are the drivers of controllers, by what they have of each port.
func OfPorts(kind string) Driver {
	switch kind {
	case "bridge":
		settings := except(
			firstPortState,
			lastPortState,
			except(firstRing, lastRing, but(0, portState, portPad, portHosts, portGroups)),
		)
		return Driver{
			changes: settings,
			emptied: map[uint16][]byte{portBackup: make([]byte, 4), portBackupHop: make([]byte, 4)},
		}
	case "bond":
		return Driver{changes: only(slaveQueue, slavePriority)}
	}
	return Driver{changes: none}
}
