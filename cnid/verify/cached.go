// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"

	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// CachedRowDiffers: a row that a node looked up leads elsewhere than the Address.
const CachedRowDiffers Kind = "CachedRowDiffers"

// cached compares the rows that a node has looked up with the Addresses. Rows that no packet
// uses any more do not count.
func (c *comparison) cached(node string, rows []nodestatus.CachedRow) {
	for _, row := range rows {
		if why := c.whyStale(node, row); why != "" && !row.Gone {
			c.onNode(node, CachedRowDiffers, fmt.Sprintf("looked-up row %s in VNI %d", row.IP, row.VNI),
				"wait 6 minutes: a returned packet deletes the row, and the node reads it again; if it lasts, see the log of the node's alioth-cnid", "%s", why)
		}
	}
}

// whyStale explains why a row is not what the API has now, or returns "".
func (c *comparison) whyStale(node string, row nodestatus.CachedRow) string {
	vpc := store.VPCByVNI(c.tx, row.VNI)
	if vpc == nil {
		return "is of a VNI that no VPC has"
	}
	address := store.AddressByIP(c.tx, vpc.Name, row.IP)
	if address == nil {
		return fmt.Sprintf("leads to node %s, and VPC %s has no Address object of it", row.Node, vpc.Name)
	}
	want, ok := plan.Elsewhere(c.tx, store.GetNode(c.tx, node), node, vpc.VNI, address)
	switch {
	case !ok || want.Kind != state.Remote:
		return fmt.Sprintf("leads to node %s, and the Address object %s leads to no other node", row.Node, address.Name)
	case want.Node != row.Node || want.MAC.String() != row.MAC:
		return fmt.Sprintf("leads to node %s with MAC %s, and the Address object %s to %s with MAC %s", row.Node, row.MAC, address.Name, want.Node, want.MAC)
	}
	return ""
}
