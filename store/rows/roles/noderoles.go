// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// NodeRoles is the row of a NodeRoles object. Key: Name, which equals the name of the Node.
type NodeRoles struct {
	store.Meta
	Name string
	// NodeUID is the UID of the Node that owns the object, or "".
	NodeUID string
	// Protocol is the version of the node daemon's abilities with roles.
	Protocol int32
	// Listed has the revision of the programmed members by the UID of the VPC. A node
	// writes it: no revision need be one that exists.
	Listed map[string]int64
}

var nodeRoles = memory.Define(memory.Table[NodeRoles]{
	Name: "noderoles",
	Key:  func(n *NodeRoles) []byte { return memory.TextKey(n.Name) },
	Meta: func(n *NodeRoles) *store.Meta { return &n.Meta },
})

// OfNode returns the report of a node, or nil: one that another Node of the same name has
// left does not count.
func OfNode(tx store.ReadTx, node *store.Node) *NodeRoles {
	row := GetNodeRoles(tx, node.Name)
	if row == nil || row.NodeUID != node.UID {
		return nil
	}
	return row
}

// GetNodeRoles returns the NodeRoles object of that name, or nil.
func GetNodeRoles(tx store.ReadTx, name string) *NodeRoles {
	return nodeRoles.Get(tx, memory.TextKey(name))
}

// PutNodeRoles inserts or replaces a report.
func PutNodeRoles(tx store.Tx, row *NodeRoles) error {
	_, err := nodeRoles.Put(tx, row)
	return err
}

// DeleteNodeRoles removes a report if it has that UID, and reports whether it did.
func DeleteNodeRoles(tx store.Tx, name, uid string) bool {
	return nodeRoles.Remove(tx, memory.TextKey(name), uid) != nil
}
