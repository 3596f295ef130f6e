// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// NodeInfo is the row of a NodeInfo of either group. Key: (Name, Group).
type NodeInfo struct {
	store.Meta
	// Ref has the name of the node.
	Ref
	// VMUniqueID identifies the virtual machine, "" if that is not known.
	VMUniqueID string
	// MACs are the Ethernet addresses of the devices that the node offers, in lower case
	// with colons.
	MACs []string
	// Invalid describes a value that can't be used although the schema lets it pass, ""
	// for none. Such a value is left out.
	Invalid string
}

var nodeInfos = memory.Define(memory.Table[NodeInfo]{
	Name: "nodeinfo",
	Key:  func(n *NodeInfo) []byte { return n.key() },
	Meta: func(n *NodeInfo) *store.Meta { return &n.Meta },
})

// GetNodeInfo returns a NodeInfo of a group, or nil.
func GetNodeInfo(tx store.ReadTx, ref Ref) *NodeInfo { return nodeInfos.Get(tx, ref.key()) }

// NodeInfosOf lists the NodeInfos of a node, by group.
func NodeInfosOf(tx store.ReadTx, node string) []*NodeInfo {
	return nodeInfos.List(tx, memory.Primary, memory.TextKey("", node))
}

// PutNodeInfo inserts or replaces a NodeInfo.
func PutNodeInfo(tx store.Tx, row *NodeInfo) error {
	_, err := nodeInfos.Put(tx, row)
	return err
}

// DeleteNodeInfo removes a NodeInfo if it has that UID, and reports whether it did.
func DeleteNodeInfo(tx store.Tx, ref Ref, uid string) bool {
	return nodeInfos.Remove(tx, ref.key(), uid) != nil
}
