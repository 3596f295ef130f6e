// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Nodes: the underlay addresses of known nodes.
const nodeTable = table[bpf.AliothAddr, uint32]("nodes")

var nodesTable = &descriptor{
	anyTable: nodeTable,
	encode: func(t *Rows, p part) {
		for _, ip := range p.Nodes {
			nodeTable.of(t)[bpf.EncodeAddr(ip)] = 0
		}
	},
	decode: func(t *Rows, s *state.State) {
		for ip := range nodeTable.of(t) {
			s.Nodes = append(s.Nodes, bpf.DecodeAddr(ip))
		}
	},
}
