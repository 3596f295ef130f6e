// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

var nodes = &table[Node]{
	name: "node",
	key:  func(n *Node) []byte { return textKey(n.Name) },
	meta: func(n *Node) *Meta { return &n.Meta },
}

// MayAnnounce tells whether the node may announce addresses on the nodes' network.
func (n *Node) MayAnnounce() bool {
	return n.Ready && !n.Deleting && !n.OutOfService && !n.NoBalancers
}

// GetNode returns a Node, or nil.
func GetNode(tx ReadTx, name string) *Node {
	return nodes.get(tx, textKey(name))
}

// ListNodes returns all nodes by name.
func ListNodes(tx ReadTx) []*Node {
	return slices.Collect(nodes.all(tx))
}

// PutNode inserts or replaces a node.
func PutNode(tx Tx, row *Node) error {
	_, err := nodes.put(tx, row)
	return err
}

// DeleteNode removes a node if it has that UID, and reports whether it did.
func DeleteNode(tx Tx, name, uid string) bool {
	return nodes.remove(tx, textKey(name), uid) != nil
}
