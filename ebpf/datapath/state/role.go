// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"
)

// RoleMembersAtMost is the number of members that a role may list.
const RoleMembersAtMost = 64

// RoleKey names a role within the state of a node. The zero value stands for no role: the
// complete table is on this node.
type RoleKey struct {
	// VNI is the VNI of the VPC.
	VNI uint32
	// ID is unique within the VPC, 1 and above.
	ID uint32
}

func (k RoleKey) compare(other RoleKey) int {
	return cmp.Or(cmp.Compare(k.VNI, other.VNI), cmp.Compare(k.ID, other.ID))
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
	// Node is the underlay address that packets are sent to.
	Node netip.Addr
	// Before is the Node of the previous row, for a second after a change, otherwise the
	// zero value: packets that were sent there may still be returned.
	Before netip.Addr
	// MAC is the Ethernet address of the destination's interface.
	MAC MAC
	// Used is the time of the last packet that used the row, since the boot (CLOCK_MONOTONIC),
	// with a resolution of a second.
	Used time.Duration
	// Until is the time when Before ceases to count. For a row that is Gone, it is the end of the
	// row. Same clock.
	Until time.Duration
	// Gone reports that the node which it names has returned a packet: no packet uses the
	// row any more, and its key is kept only so that packets under way are recognized.
	Gone bool
}

// Miss is an address of a VPC without a row that a packet of an interface was sent to.
type Miss struct {
	VNI uint32
	IP  netip.Addr
	// Ifindex is the interface of the sender, see Interface.Ifindex.
	Ifindex int
}

// memberKey is a member of a role, for the check that each is listed once.
type memberKey struct {
	role   RoleKey
	member netip.Addr
}

func (s *State) checkRoles(c *checker) error {
	if err := each(c, &s.Roles, func(r Role) error {
		if err := r.check(c); err != nil {
			return fmt.Errorf("role %d of VNI %d: %w", r.Key.ID, r.Key.VNI, err)
		}
		return nil
	}); err != nil {
		return err
	}
	return each(c, &s.VPCs, func(v VPC) error { return c.plays("VPC", v.VNI, v.Role) })
}

func (r Role) check(c *checker) error {
	if r.Key.ID == 0 || len(r.Members) > RoleMembersAtMost {
		return fmt.Errorf("it has no ID, or %d members are more than %d", len(r.Members), RoleMembersAtMost)
	}
	if err := c.present("it", r.Key.VNI); err != nil {
		return err
	}
	for _, m := range r.Members {
		if err := checkIP("member", m); err != nil {
			return err
		}
		if err := c.once(memberKey{r.Key, m.Unmap()}, "member %s", m.Unmap()); err != nil {
			return err
		}
	}
	return c.once(r.Key, "it")
}

// plays rejects the reference to a role that the State does not contain; 0 refers to no role.
func (c *checker) plays(what any, vni, id uint32) error {
	if id != 0 && !c.seen[RoleKey{VNI: vni, ID: id}] {
		return fmt.Errorf("%v of VNI %d refers to role %d, which is not in this state", what, vni, id)
	}
	return nil
}
