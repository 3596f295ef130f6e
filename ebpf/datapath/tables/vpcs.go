// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"slices"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// VPCs: VNI -> egress, default VPC. Their ranges: {VNI, prefix} -> the role of their
// dividers, or 0.
const (
	vpcTable   = table[uint32, bpf.AliothVpc]("vpcs")
	rangeTable = table[bpf.AliothPrefixKey, uint32]("vpc_ranges")
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
	anyTable: guided{table: rangeTable, own: func(was uint32, known bool) bool { return known && was != 0 }},
	encode: func(t *Rows, p part) {
		for _, v := range p.VPCs {
			for _, prefix := range v.Prefixes {
				rangeTable.of(t)[bpf.EncodePrefix(v.VNI, prefix)] = v.Role
			}
		}
	},
}

func encodeVPC(v state.VPC) bpf.AliothVpc {
	var flags bpf.AliothVpcFlag
	if v.EgressMasquerade {
		flags |= bpf.AliothVpcFlagVPC_EGRESS
	}
	if v.Default {
		flags |= bpf.AliothVpcFlagVPC_DEFAULT
	}
	if v.Fronted {
		flags |= bpf.AliothVpcFlagVPC_FRONTED
	}
	return bpf.AliothVpc{Flags: flags}
}

func (t *Rows) decodeVPC(vni uint32, row bpf.AliothVpc) state.VPC {
	v := state.VPC{
		VNI:              vni,
		EgressMasquerade: row.Flags&bpf.AliothVpcFlagVPC_EGRESS != 0,
		Default:          row.Flags&bpf.AliothVpcFlagVPC_DEFAULT != 0,
		Fronted:          row.Flags&bpf.AliothVpcFlagVPC_FRONTED != 0,
	}
	for key, role := range rangeTable.of(t) {
		if key.Vni == vni {
			v.Prefixes = append(v.Prefixes, bpf.DecodePrefix(key))
			v.Role = max(v.Role, role)
		}
	}
	slices.SortFunc(v.Prefixes, state.ComparePrefixes)
	return v
}

// Subnets: {VNI, prefix} -> the role of their bouncers, or 0 if all addresses of the range
// are in the address table.
const subnetTable = table[bpf.AliothPrefixKey, uint32]("subnets")

var subnetsTable = &descriptor{
	anyTable: guided{table: subnetTable, own: func(uint32, bool) bool { return true }},
	encode: func(t *Rows, p part) {
		for _, n := range p.Subnets {
			subnetTable.of(t)[bpf.EncodePrefix(n.VNI, n.Prefix)] = n.Role
		}
	},
	decode: func(t *Rows, s *state.State) {
		for key, role := range subnetTable.of(t) {
			s.Subnets = append(s.Subnets, state.Subnet{VNI: key.Vni, Prefix: bpf.DecodePrefix(key), Role: role})
		}
	},
}

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
			s.Closed = append(
				s.Closed,
				state.ClosedPrefix{VNI: key.Vni, Prefix: bpf.DecodePrefix(key), Class: state.ClosedClass(row.Class)},
			)
		}
	},
}
