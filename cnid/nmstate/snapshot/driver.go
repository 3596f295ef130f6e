// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"slices"

	"github.com/vishvananda/netlink/nl"

	"github.com/alioth-net/alioth/cnid/nmstate/attribute"
)

// driver is what an image can say of the devices, or the ports, of one kind. Numbers are
// those of include/uapi/linux/if_link.h.
type driver struct {
	// first are the attributes that a new device is made with, nil for all: the others are
	// set afterwards.
	first []uint16
	// changes reports whether an attribute is a setting that can change.
	changes func(kind uint16) bool
	// emptied are lists of which the kernel shows an attribute only if they have an entry.
	emptied []uint16
	// refused are shown, and refused from whoever sets them.
	refused []uint16
	// marks are shown as a number, and set by an attribute without content.
	marks []uint16
}

// creation returns the attributes of a new device.
func (d driver) creation(data attribute.List) (out []byte) {
	for kind, content := range data.All() {
		switch {
		case slices.Contains(d.refused, kind), d.first != nil && !slices.Contains(d.first, kind):
		case !slices.Contains(d.marks, kind):
			out = appendAttribute(out, kind, content)
		case bytes.ContainsFunc(content, func(r rune) bool { return r != 0 }):
			out = appendAttribute(out, kind, nil)
		}
	}
	return out
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
	portHosts                     = 38     // IFLA_BRPORT_MCAST_EHT_HOSTS_CNT
	portGroups                    = 40     // IFLA_BRPORT_MCAST_N_GROUPS
)

// Settings of other kinds.
const (
	slaveQueue, slavePriority = 5, 9 // IFLA_BOND_SLAVE_QUEUE_ID, IFLA_BOND_SLAVE_PRIO
	macvlanMode, macvlanFlags = 1, 2
	vxlanAgeing, vxlanLearns  = 8, 7
	vxlanBase                 = 3  // IFLA_VXLAN_LINK
	vxlanTTL                  = 28 // IFLA_VXLAN_TTL_INHERIT
	vxlanReserved             = 33 // IFLA_VXLAN_RESERVED_BITS
	addressesOfARP            = nl.IFLA_BOND_ARP_IP_TARGET
	addressesOfND             = 31 // IFLA_BOND_NS_IP6_TARGET
)

// ofDevices are the drivers of virtual devices whose settings change. Devices of others are
// made again as they were, and do not change.
func ofDevices(kind string) driver {
	switch kind {
	case "bridge":
		states := except(firstState, lastState, but(0, brFlush, brPad, brQuerier, brLearned, brElasticity))
		return driver{first: []uint16{}, changes: states}
	case "bond":
		return driver{
			first: []uint16{nl.IFLA_BOND_MODE}, changes: but(0, nl.IFLA_BOND_ACTIVE_SLAVE, nl.IFLA_BOND_AD_INFO),
			emptied: []uint16{addressesOfARP, addressesOfND, nl.IFLA_BOND_PRIMARY},
		}
	case "vlan":
		return driver{changes: only(nl.IFLA_VLAN_FLAGS)}
	case "macvlan", "macvtap", "ipvlan", "ipvtap":
		return driver{changes: only(macvlanMode, macvlanFlags), first: []uint16{macvlanMode, macvlanFlags}}
	case "vxlan":
		return driver{changes: only(vxlanAgeing, vxlanLearns), marks: []uint16{vxlanTTL}, refused: []uint16{vxlanReserved}}
	}
	return driver{changes: none}
}

// ofPorts are the drivers of controllers, by what they have of each port.
func ofPorts(kind string) driver {
	switch kind {
	case "bridge":
		return driver{changes: except(firstPortState, lastPortState, but(0, portState, portPad, portHosts, portGroups))}
	case "bond":
		return driver{changes: only(slaveQueue, slavePriority)}
	}
	return driver{changes: none}
}
