// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Subnets: {VNI, prefix}, the ranges whose addresses are all known here.
const subnetTable = table[bpf.AliothPrefixKey, uint32]("subnets")

var subnetsTable = &descriptor{
	anyTable: subnetTable,
	encode: func(t *Rows, p part) {
		for _, n := range p.Subnets {
			subnetTable.of(t)[bpf.EncodePrefix(n.VNI, n.Prefix)] = 0
		}
	},
	decode: func(t *Rows, s *state.State) {
		for key := range subnetTable.of(t) {
			s.Subnets = append(s.Subnets, state.Subnet{VNI: key.Vni, Prefix: bpf.DecodePrefix(key)})
		}
	},
}
