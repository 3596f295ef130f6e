// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"net/netip"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/store"
)

// CachedRowLeft is a row that a node looked up of a VPC, or to a node, that does not exist
// any more.
const CachedRowLeft Kind = "CachedRowLeft"

// cached looks for rows that a node has looked up and should have deleted. A row whose address
// has moved or gone is not a difference: the node that the row leads to returns the packets, and
// a row that no packet uses ends within 6 minutes.
func (c *comparison) cached(node string, rows []nodestatus.CachedRow) {
	others := c.tunnelAddresses(node)
	for _, row := range rows {
		if why := c.whyLeft(others, row); why != "" && !row.Gone {
			c.onNode(node, CachedRowLeft, fmt.Sprintf("looked-up row %s in VNI %d", row.IP, row.VNI),
				"it ends within 6 minutes; if it lasts, see the log of the node's alioth-cnid", "%s", why)
		}
	}
}

// tunnelAddresses returns the addresses that a node sends packets for the other nodes to.
func (c *comparison) tunnelAddresses(node string) map[netip.Addr]bool {
	self, others := store.GetNode(c.tx, node), map[netip.Addr]bool{}
	for _, other := range store.ListNodes(c.tx) {
		if at, ok := plan.TunnelAddress(self, other); ok && other.Name != node {
			others[at] = true
		}
	}
	return others
}

// whyLeft explains why a row should have been deleted, or returns "".
func (c *comparison) whyLeft(others map[netip.Addr]bool, row nodestatus.CachedRow) string {
	switch {
	case store.VPCByVNI(c.tx, row.VNI) == nil:
		return "is of a VNI that no VPC has"
	case !others[row.Node]:
		return fmt.Sprintf("leads to %s, which no other node has", row.Node)
	}
	return ""
}
