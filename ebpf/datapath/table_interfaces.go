// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Interfaces: ifindex -> VNI, addresses, shadows, MAC, flags.
const interfaceTable = table[uint32, aliothInterface]("interfaces")

var interfacesTable = &descriptor{
	anyTable: interfaceTable,
	encode: func(t *Rows, p part) {
		for _, i := range p.Interfaces {
			interfaceTable.of(t)[uint32(i.Ifindex)] = encodeInterface(i, len(p.virtual) > 0)
		}
	},
	decode: func(t *Rows, s *state.State) {
		for ifindex, row := range interfaceTable.of(t) {
			s.Interfaces = append(s.Interfaces, decodeInterface(ifindex, row))
		}
	},
}

// encodeInterface returns the row of an interface; served reports whether its VPC has
// services.
func encodeInterface(i state.Interface, served bool) aliothInterface {
	row := aliothInterface{Vni: i.VNI, Mac: i.MAC}
	if served {
		row.Flags |= aliothInterfaceFlagINTERFACE_SERVICES
	}
	for _, ip := range i.Addrs {
		row.Ip[familyIndex(ip.Unmap())] = encodeAddr(ip)
	}
	row.Shadow[aliothFamilyFAMILY_V4] = encodeAddr(i.Shadow4)
	row.Shadow[aliothFamilyFAMILY_V6] = encodeAddr(i.Shadow6)
	row.Gateway[aliothFamilyFAMILY_V4] = encodeAddr(i.Gateway4)
	row.Gateway[aliothFamilyFAMILY_V6] = encodeAddr(i.Gateway6)
	switch {
	case i.Node:
		row.Flags |= aliothInterfaceFlagINTERFACE_NODE
	case i.Netkit:
		row.Flags |= aliothInterfaceFlagINTERFACE_NETKIT
	}
	return row
}

func decodeInterface(ifindex uint32, row aliothInterface) state.Interface {
	i := state.Interface{
		Ifindex:  int(ifindex),
		VNI:      row.Vni,
		MAC:      row.Mac,
		Shadow4:  decodeAddr(row.Shadow[aliothFamilyFAMILY_V4]),
		Shadow6:  decodeAddr(row.Shadow[aliothFamilyFAMILY_V6]),
		Gateway4: decodeAddr(row.Gateway[aliothFamilyFAMILY_V4]),
		Gateway6: decodeAddr(row.Gateway[aliothFamilyFAMILY_V6]),
		Node:     row.Flags&aliothInterfaceFlagINTERFACE_NODE != 0,
		Netkit:   row.Flags&aliothInterfaceFlagINTERFACE_NETKIT != 0,
	}
	for _, raw := range row.Ip {
		if ip := decodeAddr(raw); ip.IsValid() {
			i.Addrs = append(i.Addrs, ip)
		}
	}
	return i
}
