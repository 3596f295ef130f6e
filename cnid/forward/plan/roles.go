// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/tablesync"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// Roles holds the report of a node about roles. It is never changed.
type Roles struct {
	// Listed is the revision of the members that the plan lists, by UID of the VPC.
	Listed map[string]int64
	// Complete are the names of the RoleMembers of this node whose tables the plan has.
	Complete map[string]bool
}

// roleBuilder plans the roles of one VPC.
type roleBuilder struct {
	tx    store.ReadTx
	node  string
	self  *store.Node
	vpc   *store.VPC
	table tablesync.Table
	// members by roles.Member.Key.
	members map[string][]*roles.Member
	ids     map[string]uint32
	out     []state.Role
	// complete are the names of the members of this node whose tables are complete.
	complete []string
	// listed is the revision that the plan has, 0 for none. It is below the revision of a
	// leaving member that is still used.
	listed int64
}

func newRoleBuilder(tx store.ReadTx, in Input, self *store.Node, vpc *store.VPC) *roleBuilder {
	b := &roleBuilder{
		tx:      tx,
		node:    in.Node,
		self:    self,
		vpc:     vpc,
		table:   in.Tables.Of(vpc.Name),
		members: map[string][]*roles.Member{},
	}
	for _, m := range roles.MembersByVPC(tx, vpc.Name) {
		if m.VPCUID == vpc.UID {
			b.members[m.Key()] = append(b.members[m.Key()], m)
			b.listed = max(b.listed, m.Revision)
		}
	}
	return b
}

// identify gives each role that there can be a number that is unique within the VPC: a hash
// of its UID, or the next free number behind that.
func (b *roleBuilder) identify() {
	keys := map[string]bool{b.vpc.UID: true}
	for _, subnet := range store.SubnetsByVPC(b.tx, b.vpc.Name) {
		keys[subnet.UID] = true
	}
	for key := range b.members {
		keys[key] = true
	}
	b.ids = map[string]uint32{}
	taken := map[uint32]bool{0: true}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(key)) // never fails
		id := hash.Sum32()
		for taken[id] {
			id++
		}
		b.ids[key], taken[id] = id, true
	}
}

// isMember reports whether this node is a member of any role of the VPC.
func (b *roleBuilder) isMember() bool {
	for key := range b.members {
		if b.own(key) != nil {
			return true
		}
	}
	return false
}

// dividers adds the role of the VPC's dividers if this node needs it, and returns its ID, or
// 0: all Subnets are here.
func (b *roleBuilder) dividers() uint32 {
	return b.role(b.vpc.UID, b.table.Subnets && b.table.Members, b.table.Subnets)
}

// bouncers adds the role of a subnet's bouncers if this node needs it, and returns its ID,
// or 0: all Addresses of the subnet are here.
func (b *roleBuilder) bouncers(subnet *store.Subnet) uint32 {
	has := b.table.Has(subnet.Name)
	return b.role(subnet.UID, has, has)
}

// role adds a role if this node is its member, or does not have its table.
func (b *roleBuilder) role(key string, complete, has bool) uint32 {
	own := b.own(key)
	if own == nil && has {
		return 0
	}
	if b.ids == nil {
		b.identify()
	}
	role := state.Role{
		Key: state.RoleKey{
			VNI: b.vpc.VNI,
			ID:  b.ids[key],
		}, Members: b.others(key), Here: own != nil, Complete: own != nil && complete,
	}
	b.out = append(b.out, role)
	if role.Complete {
		b.complete = append(b.complete, own.Name)
	}
	return role.Key.ID
}

func (b *roleBuilder) own(key string) *roles.Member {
	for _, m := range b.members[key] {
		if roles.IsOn(b.tx, m, b.node) {
			return m
		}
	}
	return nil
}

// others returns the addresses of the other members that serve. If none serves, it returns the
// leaving members, which answer until this node has acknowledged that it no longer lists them.
func (b *roleBuilder) others(key string) []netip.Addr {
	list := b.serving(key)
	if len(list) == 0 && b.own(key) == nil {
		list = b.leaving(key)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	list = slices.Compact(list)
	return list[:min(len(list), state.RoleMembersAtMost)]
}

func (b *roleBuilder) serving(key string) (list []netip.Addr) {
	for _, m := range b.members[key] {
		if node, ok := b.reach(m); ok && m.Stage == roles.Serving {
			list = append(list, node)
		}
	}
	return list
}

func (b *roleBuilder) leaving(key string) (list []netip.Addr) {
	for _, m := range b.members[key] {
		if node, ok := b.reach(m); ok && m.Stage == roles.Leaving {
			list = append(list, node)
			b.listed = min(b.listed, m.Revision-1)
		}
	}
	return list
}

// reach returns the underlay address of a member on another node.
func (b *roleBuilder) reach(m *roles.Member) (netip.Addr, bool) {
	node := store.GetNode(b.tx, m.Node)
	if node == nil || node.UID != m.NodeUID || m.Node == b.node {
		return netip.Addr{}, false
	}
	return TunnelAddress(b.self, node)
}
