// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Closed: {VNI or 0, prefix} -> why egress must not go there.
const closedTable = table[aliothPrefixKey, aliothClosed]("closed")

var closedPrefixesTable = &descriptor{
	anyTable: closedTable,
	encode: func(t *Rows, p part) {
		rows := closedTable.of(t)
		for _, c := range p.Closed {
			rows[encodePrefix(c.VNI, c.Prefix)] = aliothClosed{Class: aliothClosedClass(c.Class)}
		}
	},
	decode: func(t *Rows, s *state.State) {
		for key, row := range closedTable.of(t) {
			s.Closed = append(s.Closed, state.ClosedPrefix{VNI: key.Vni, Prefix: decodePrefix(key), Class: state.ClosedClass(row.Class)})
		}
	},
}
