// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store/memory"
)

// Node is the row of a Node object. Key: Name.
type Node struct {
	Meta
	Name string
	// Addresses are the node's InternalIPs, in the order of its status.
	Addresses []netip.Addr
	// Zone is the value of its label topology.kubernetes.io/zone, or "".
	Zone string
	// AllAddresses are its addresses of every kind.
	AllAddresses []netip.Addr
	// IgnoredAddresses is the number of reported addresses that do not count.
	IgnoredAddresses int
	// Pods is the maximum number of pods of the node's kubelet; 0: not reported.
	Pods uint32
	// KubeletPort is the TCP port at which the node's kubelet listens; 0: not
	// reported.
	KubeletPort uint16
	// Ready is the status of the node's Ready condition.
	Ready bool
	// OutOfService is true while the node has the taint
	// node.kubernetes.io/out-of-service: an administrator confirms that no pod runs
	// there.
	OutOfService bool
	// NoBalancers is true while the node has the label
	// node.kubernetes.io/exclude-from-external-load-balancers.
	NoBalancers bool
	// NodeIPAM is true while the node has the label
	// kubernetes.azure.com/podnetwork-multi-tenancy-enabled: other CNI plugins attach its
	// pods, with addresses of the node IPAM API.
	NodeIPAM bool
	// RoleLabel is true while the node has the label
	// alioth.node-restriction.kubernetes.io/role=true: it may be a bouncer or divider.
	RoleLabel bool
	// Leaving is true while the node has the taint ToBeDeletedByClusterAutoscaler.
	Leaving bool
	// Pools are the extended resources whose devices the node offers, in order.
	Pools []string
	// Selection is a hash of the properties that policies select nodes by, labels and taints: it
	// changes with them.
	Selection uint64
}

const byPool = "pool"

var nodes = memory.Define(memory.Table[Node]{
	Name:     "node",
	Key:      func(n *Node) []byte { return memory.TextKey(n.Name) },
	Meta:     func(n *Node) *Meta { return &n.Meta },
	Multiple: map[string]func(*Node) [][]byte{byPool: keysOfPools},
})

func keysOfPools(n *Node) [][]byte {
	var keys [][]byte
	for _, pool := range n.Pools {
		keys = append(keys, memory.TextKey(pool))
	}
	return keys
}

// IsOffered reports whether a node offers devices of an extended resource.
func IsOffered(tx ReadTx, pool string) bool {
	for row := range nodes.Seq(tx, byPool, memory.TextKey(pool)) {
		if !row.Deleting {
			return true
		}
	}
	return false
}

// MayAnnounce reports whether the node may announce addresses on the nodes' network.
func (n *Node) MayAnnounce() bool {
	return n.Ready && !n.Deleting && !n.OutOfService && !n.NoBalancers
}

// Older reports whether a node precedes another one: by creation, then name.
func (n *Node) Older(other *Node) bool { return nodes.ByAge(n, other) < 0 }

// GetNode returns a Node, or nil.
func GetNode(tx ReadTx, name string) *Node {
	return nodes.Get(tx, memory.TextKey(name))
}

// Nodes yields all nodes by name.
func Nodes(tx ReadTx) iter.Seq[*Node] { return nodes.All(tx) }

// ListNodes returns all nodes by name.
func ListNodes(tx ReadTx) []*Node {
	return slices.Collect(nodes.All(tx))
}

// CountNodes returns the number of nodes.
func CountNodes(tx ReadTx) int {
	count := 0
	for range nodes.All(tx) {
		count++
	}
	return count
}

// PutNode inserts or replaces a node.
func PutNode(tx Tx, row *Node) error {
	_, err := nodes.Put(tx, row)
	return err
}

// DeleteNode removes a node if it has that UID, and reports whether it did.
func DeleteNode(tx Tx, name, uid string) bool {
	return nodes.Remove(tx, memory.TextKey(name), uid) != nil
}
