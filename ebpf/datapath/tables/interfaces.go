// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Interfaces: ifindex -> VNI, addresses, shadows, MAC, flags.
const interfaceTable = table[uint32, bpf.AliothInterface]("interfaces")

var interfacesTable = &descriptor{
	anyTable: interfaceTable,
	encode: func(t *Rows, p part) {
		for _, i := range p.Interfaces {
			interfaceTable.of(t)[uint32(i.Ifindex)] = encodeInterface(i, !p.virtual.Empty())
		}
	},
	decode: func(t *Rows, s *state.State) {
		for ifindex, row := range interfaceTable.of(t) {
			s.Interfaces = append(s.Interfaces, decodeInterface(ifindex, row))
		}
	},
}

// laterFlags are the flags that depend on more than the attachment: on Services, and on the
// identity of the pod. An interface works without them.
const laterFlags = bpf.AliothInterfaceFlagINTERFACE_SERVICES | bpf.AliothInterfaceFlagINTERFACE_SENDS_IDENTITY |
	^(bpf.AliothInterfaceFlagINTERFACE_IDENTITY - 1)

// encodeInterface returns the row of an interface; served reports whether its VPC has
// services.
func encodeInterface(i state.Interface, served bool) bpf.AliothInterface {
	row := bpf.AliothInterface{
		Vni:   i.VNI,
		Mac:   i.MAC,
		Flags: bpf.AliothInterfaceFlagINTERFACE_IDENTITY * bpf.AliothInterfaceFlag(i.Identity),
	}
	if served {
		row.Flags |= bpf.AliothInterfaceFlagINTERFACE_SERVICES
	}
	if i.SendsIdentity {
		row.Flags |= bpf.AliothInterfaceFlagINTERFACE_SENDS_IDENTITY
	}
	for _, ip := range i.Addrs {
		row.Ip[bpf.FamilyOf(ipfamily.Of(ip.Unmap()))] = bpf.EncodeAddr(ip)
	}
	row.Shadow[bpf.AliothFamilyFAMILY_V4] = bpf.EncodeAddr(i.Shadow4)
	row.Shadow[bpf.AliothFamilyFAMILY_V6] = bpf.EncodeAddr(i.Shadow6)
	row.Gateway[bpf.AliothFamilyFAMILY_V4] = bpf.EncodeAddr(i.Gateway4)
	row.Gateway[bpf.AliothFamilyFAMILY_V6] = bpf.EncodeAddr(i.Gateway6)
	switch {
	case i.Node:
		row.Flags |= bpf.AliothInterfaceFlagINTERFACE_NODE
	case i.Netkit:
		row.Flags |= bpf.AliothInterfaceFlagINTERFACE_NETKIT
	}
	return row
}

func decodeInterface(ifindex uint32, row bpf.AliothInterface) state.Interface {
	i := state.Interface{
		Ifindex:  int(ifindex),
		VNI:      row.Vni,
		MAC:      row.Mac,
		Shadow4:  bpf.DecodeAddr(row.Shadow[bpf.AliothFamilyFAMILY_V4]),
		Shadow6:  bpf.DecodeAddr(row.Shadow[bpf.AliothFamilyFAMILY_V6]),
		Gateway4: bpf.DecodeAddr(row.Gateway[bpf.AliothFamilyFAMILY_V4]),
		Gateway6: bpf.DecodeAddr(row.Gateway[bpf.AliothFamilyFAMILY_V6]),
		Node:     row.Flags&bpf.AliothInterfaceFlagINTERFACE_NODE != 0,
		Netkit:   row.Flags&bpf.AliothInterfaceFlagINTERFACE_NETKIT != 0,

		Identity:      uint32(row.Flags / bpf.AliothInterfaceFlagINTERFACE_IDENTITY),
		SendsIdentity: row.Flags&bpf.AliothInterfaceFlagINTERFACE_SENDS_IDENTITY != 0,
	}
	for _, raw := range row.Ip {
		if ip := bpf.DecodeAddr(raw); ip.IsValid() {
			i.Addrs = append(i.Addrs, ip)
		}
	}
	return i
}
