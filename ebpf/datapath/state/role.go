// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"net/netip"
	"time"
)

// RoleMembersAtMost is how many members a role may list.
const RoleMembersAtMost = 64

// RoleKey names a role within the state of a node. The zero value stands for no role: the
// complete table is on this node.
type RoleKey struct {
	// VNI is that of the VPC.
	VNI uint32
	// ID is unique within the VPC, 1 and above.
	ID uint32
}

// Role is a set of nodes, each with a complete table: of one subnet (bouncers) or of the
// subnets of a VPC (dividers).
type Role struct {
	Key RoleKey
	// Members are the underlay addresses of the nodes that serve, without this one, at
	// most RoleMembersAtMost. Their order has no meaning.
	Members []netip.Addr
	// Here reports that this node is a member.
	Here bool
	// Complete reports that the table of this member is complete. It has no meaning on
	// other nodes.
	Complete bool
}

// Cached is a row for one address that a node does not hold by a complete table. The daemon
// writes it from the Address that it has read by name. Programs only mark it as gone.
type Cached struct {
	VNI uint32
	IP  netip.Addr
	// Node is the underlay address to which packets go.
	Node netip.Addr
	// Before is the Node of the previous row, for a second after a change, otherwise the
	// zero value: packets that were sent there may still be returned.
	Before netip.Addr
	// MAC is the Ethernet address of the destination's interface.
	MAC MAC
	// Used is when a packet last used the row, as time since the boot (CLOCK_MONOTONIC),
	// with a resolution of a second.
	Used time.Duration
	// Until is when Before, or the row itself if it is Gone, stops to count. Same clock.
	Until time.Duration
	// Gone reports that the node which it names has returned a packet: no packet uses the
	// row any more, and its key is kept only so that packets under way are recognized.
	Gone bool
}

// Miss is an address of a VPC for which a packet of an interface found no row.
type Miss struct {
	VNI uint32
	IP  netip.Addr
	// Ifindex is the interface of the sender, see Interface.Ifindex.
	Ifindex int
}
