// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Closed: {VNI or 0, prefix} -> why egress must not go there.
const closedTable = table[bpf.AliothPrefixKey, bpf.AliothClosed]("closed")

var closedPrefixesTable = &descriptor{
	anyTable: closedTable,
	encode: func(t *Rows, p part) {
		rows := closedTable.of(t)
		for _, c := range p.Closed {
			rows[bpf.EncodePrefix(c.VNI, c.Prefix)] = bpf.AliothClosed{Class: bpf.AliothClosedClass(c.Class)}
		}
	},
	decode: func(t *Rows, s *state.State) {
		for key, row := range closedTable.of(t) {
			s.Closed = append(s.Closed, state.ClosedPrefix{VNI: key.Vni, Prefix: bpf.DecodePrefix(key), Class: state.ClosedClass(row.Class)})
		}
	},
}
