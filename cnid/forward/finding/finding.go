// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package finding has the findings of the daemon about its node: repairs and problems.
// Passes and problem checks make them, and package report reports them. It is pure.
package finding

import "fmt"

// Repair is an object of the node that others deleted or changed, and that the daemon has
// restored.
type Repair struct{ Kind, Detail string }

// Kinds of repair, beside the kinds of netdev and datapath.
const (
	RepairFilter    = "packet_filter"
	RepairInterface = "pod_interface"
)

// Problem is a fault of the node's network that an administrator has to correct.
type Problem struct{ Reason, Message string }

// AndMore returns the end of a list that omits n names.
func AndMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
