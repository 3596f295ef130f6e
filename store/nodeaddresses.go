// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"net/netip"
	"slices"
)

// Each kubelet reports the addresses of its own Node. A dishonest kubelet may report the
// addresses of other nodes. The functions here find the node that an address belongs to.

// NodesByAddress returns the nodes by their addresses. Of two nodes that report one address it is
// the older.
func NodesByAddress(tx ReadTx) map[netip.Addr]*Node {
	found := map[netip.Addr]*Node{}
	for _, node := range ListNodes(tx) {
		for _, ip := range node.Reported() {
			if other := found[ip]; other == nil || node.Older(other) {
				found[ip] = node
			}
		}
	}
	return found
}

// NodeWithAddress returns the node of NodesByAddress with one address, or nil.
func NodeWithAddress(tx ReadTx, ip netip.Addr) (found *Node) {
	for _, node := range ListNodes(tx) {
		if node.Reports(ip) && (found == nil || node.Older(found)) {
			found = node
		}
	}
	return found
}

// Reports reports whether a node has an address, by its own kubelet.
func (n *Node) Reports(ip netip.Addr) bool {
	return slices.Contains(n.Addresses, ip) || slices.Contains(n.AllAddresses, ip)
}

// Reported returns all addresses of a node, each once.
func (n *Node) Reported() []netip.Addr {
	list := slices.Clone(n.AllAddresses)
	for _, ip := range n.Addresses { // of a Node object they are among them
		if !slices.Contains(list, ip) {
			list = append(list, ip)
		}
	}
	return list
}

// ServesRange reports whether a Subnet of a VPC with addresses of the range is ready. Then the
// range is the VPC's, whatever a node reports: when the first Subnet became ready, no node had
// an address there.
func ServesRange(tx ReadTx, vpc string, prefix netip.Prefix) bool {
	for _, subnet := range SubnetsByVPC(tx, vpc) {
		if subnet.Ready && slices.ContainsFunc(subnet.Prefixes, prefix.Overlaps) {
			return true
		}
	}
	return false
}

// DoubtedAddress returns why other nodes do not believe an address of a node, and the remedy. It
// returns "" if they believe it. nodes comes from NodesByAddress, vpc is the default VPC or nil.
func DoubtedAddress(tx ReadTx, nodes map[netip.Addr]*Node, vpc *VPC, node *Node, ip netip.Addr) string {
	if owner := nodes[ip]; owner != nil && owner.Name != node.Name {
		return fmt.Sprintf(
			"address %s is that of node %s, which is older: it counts as that node's; correct the node that is wrong",
			ip,
			owner.Name,
		)
	}
	for _, row := range ListServiceCIDRs(tx) {
		if at := containing(row.Prefixes, ip); at.IsValid() {
			return fmt.Sprintf("address %s is in the range %s of Services: correct the node's address", ip, at)
		}
	}
	if vpc == nil {
		return ""
	}
	if at := containing(vpc.Prefixes, ip); at.IsValid() && ServesRange(tx, vpc.Name, at) {
		return fmt.Sprintf(
			"address %s is in the range %s of the default VPC: nodes send packets for it into the VPC; give the node another address",
			ip,
			at,
		)
	}
	return ""
}

// containing returns the prefix with an address, or the zero value.
func containing(prefixes []netip.Prefix, ip netip.Addr) netip.Prefix {
	at := slices.IndexFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
	if at < 0 {
		return netip.Prefix{}
	}
	return prefixes[at]
}
