// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// VPCs: VNI -> egress, default VPC. Their ranges: {VNI, prefix}.
const (
	vpcTable   = table[uint32, aliothVpc]("vpcs")
	rangeTable = table[aliothPrefixKey, uint32]("vpc_ranges")
)

var vpcsTable = &descriptor{
	anyTable: vpcTable,
	encode: func(t *Rows, p part) {
		for _, v := range p.VPCs {
			vpcTable.of(t)[v.VNI] = encodeVPC(v)
		}
	},
	decode: func(t *Rows, s *state.State) {
		for vni, row := range vpcTable.of(t) {
			s.VPCs = append(s.VPCs, t.decodeVPC(vni, row))
		}
	},
}

var rangesTable = &descriptor{
	anyTable: rangeTable,
	encode: func(t *Rows, p part) {
		for _, v := range p.VPCs {
			for _, prefix := range v.Prefixes {
				rangeTable.of(t)[encodePrefix(v.VNI, prefix)] = 0
			}
		}
	},
}

func encodeVPC(v state.VPC) aliothVpc {
	var flags aliothVpcFlag
	if v.EgressMasquerade {
		flags |= aliothVpcFlagVPC_EGRESS
	}
	if v.Default {
		flags |= aliothVpcFlagVPC_DEFAULT
	}
	if v.Fronted {
		flags |= aliothVpcFlagVPC_FRONTED
	}
	return aliothVpc{Flags: flags}
}

func (t *Rows) decodeVPC(vni uint32, row aliothVpc) state.VPC {
	v := state.VPC{
		VNI:              vni,
		EgressMasquerade: row.Flags&aliothVpcFlagVPC_EGRESS != 0,
		Default:          row.Flags&aliothVpcFlagVPC_DEFAULT != 0,
		Fronted:          row.Flags&aliothVpcFlagVPC_FRONTED != 0,
	}
	for key := range rangeTable.of(t) {
		if key.Vni == vni {
			v.Prefixes = append(v.Prefixes, decodePrefix(key))
		}
	}
	slices.SortFunc(v.Prefixes, state.ComparePrefixes)
	return v
}
