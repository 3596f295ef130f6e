// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"cmp"
	"iter"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// Stages of a member, as in the API.
const (
	Joining = "Joining"
	Serving = "Serving"
	Leaving = "Leaving"
)

// Member is the row of a RoleMember object. Key: Name.
type Member struct {
	store.Meta
	Name string
	// VPC is the name of the VPC, VPCUID its UID.
	VPC, VPCUID string
	// Subnet is the name of the Subnet of a bouncer, SubnetUID its UID; "" of a divider.
	Subnet, SubnetUID string
	// Node is the name of the Node, NodeUID its UID.
	Node, NodeUID string
	// Stage is Joining, Serving or Leaving.
	Stage string
	// Revision is the revision of the VPC's members at the last change of the object, 1 or more.
	Revision int64
	// Complete is true once the node has programmed the whole table of the role.
	Complete bool
}

// Key returns the UID of the Subnet or VPC that the node is a member of.
func (m *Member) Key() string { return cmp.Or(m.SubnetUID, m.VPCUID) }

const (
	byVPC  = "vpc"
	byNode = "node"
)

var members = memory.Define(memory.Table[Member]{
	Name: "rolemember",
	Key:  func(m *Member) []byte { return memory.TextKey(m.Name) },
	Meta: func(m *Member) *store.Meta { return &m.Meta },
	Indexes: map[string]func(*Member) []byte{
		byVPC:  func(m *Member) []byte { return memory.TextKey(m.VPC) },
		byNode: func(m *Member) []byte { return memory.TextKey(m.Node) },
	},
})

// GetMember returns the RoleMember object of that name, or nil.
func GetMember(tx store.ReadTx, name string) *Member {
	return members.Get(tx, memory.TextKey(name))
}

// MembersByVPC returns the members that name the VPC, by name.
func MembersByVPC(tx store.ReadTx, vpc string) []*Member {
	return members.List(tx, byVPC, memory.TextKey(vpc))
}

// MembersByNode returns the members that name the node, by name.
func MembersByNode(tx store.ReadTx, node string) []*Member {
	return members.List(tx, byNode, memory.TextKey(node))
}

// IsOn reports whether a member is on the node of that name: one of its predecessor is not.
func IsOn(tx store.ReadTx, m *Member, node string) bool {
	row := store.GetNode(tx, node)
	return row != nil && m.Node == node && m.NodeUID == row.UID
}

// Members yields all members by name.
func Members(tx store.ReadTx) iter.Seq[*Member] { return members.All(tx) }

// PutMember inserts or replaces a member.
func PutMember(tx store.Tx, row *Member) error {
	_, err := members.Put(tx, row)
	return err
}

// DeleteMember removes a member if it has that UID, and reports whether it did.
func DeleteMember(tx store.Tx, name, uid string) bool {
	return members.Remove(tx, memory.TextKey(name), uid) != nil
}

// Bouncers returns the number of a subnet's bouncers by spec.bouncers, 0 for unset, and by
// spec.dividers of its VPC; 0 for none. In a VPC with dividers a subnet has as many as the VPC
// has dividers, unless it sets a number: a node that does not know a subnet can't hold its table.
func Bouncers(bouncers, dividers int) int { return cmp.Or(bouncers, dividers) }
