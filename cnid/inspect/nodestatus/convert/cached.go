// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// CachedRows converts the rows that a node has looked up.
func CachedRows(rows []state.Cached) (list []nodestatus.CachedRow) {
	for _, row := range rows {
		list = append(
			list,
			nodestatus.CachedRow{VNI: row.VNI, IP: row.IP, Node: row.Node, MAC: row.MAC.String(), Gone: row.Gone},
		)
	}
	return list
}
