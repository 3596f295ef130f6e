// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import "fmt"

// Repair is something on the node that was deleted or changed by others and is
// again as it has to be.
type Repair struct{ Kind, Detail string }

// Kinds of repair, beside those of netdev and datapath.
const (
	RepairFilter    = "packet_filter"
	RepairInterface = "pod_interface"
)

// Problem is something that keeps the node's network from working as it should
// and that a person has to put right.
type Problem struct{ Reason, Message string }

// AndMore ends a list of which n names are left out.
func AndMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
