// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Nodes: the underlay addresses of known nodes.
const nodeTable = table[aliothAddr, uint32]("nodes")

var nodesTable = &descriptor{
	anyTable: nodeTable,
	encode: func(t *Rows, p part) {
		for _, ip := range p.Nodes {
			nodeTable.of(t)[encodeAddr(ip)] = 0
		}
	},
	decode: func(t *Rows, s *state.State) {
		for ip := range nodeTable.of(t) {
			s.Nodes = append(s.Nodes, decodeAddr(ip))
		}
	},
}
