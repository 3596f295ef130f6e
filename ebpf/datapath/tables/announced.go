// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Announced: the external addresses that are announced here.
const announcedTable = table[bpf.AliothAddr, uint32]("announced")

var announcementsTable = &descriptor{
	anyTable: announcedTable,
	encode: func(t *Rows, p part) {
		for _, ip := range p.Announced {
			announcedTable.of(t)[bpf.EncodeAddr(ip)] = 0
		}
	},
	decode: func(t *Rows, s *state.State) {
		for ip := range announcedTable.of(t) {
			s.Announced = append(s.Announced, bpf.DecodeAddr(ip))
		}
	},
}
