// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Addresses: {VNI, ip} -> local ifindex, node, or gateway.
const addressTable = table[bpf.AliothAddressKey, bpf.AliothAddress]("addresses")

var addressesTable = &descriptor{
	anyTable: addressTable,
	encode: func(t *Rows, p part) {
		rows := addressTable.of(t)
		for _, a := range p.Addresses {
			rows[addressKey(a)] = encodeAddress(a)
		}
	},
	decode: func(t *Rows, s *state.State) {
		for key, row := range addressTable.of(t) {
			s.Addresses = append(s.Addresses, state.Address{
				VNI: key.Vni, IP: bpf.DecodeAddr(key.Ip), Kind: state.AddressKind(row.Kind),
				Ifindex: int(row.Ifindex), Node: bpf.DecodeAddr(row.Node), MAC: row.Mac,
			})
		}
	},
}

func addressKey(a state.Address) bpf.AliothAddressKey {
	return bpf.AliothAddressKey{Vni: a.VNI, Ip: bpf.EncodeAddr(a.IP)}
}

func encodeAddress(a state.Address) bpf.AliothAddress {
	return bpf.AliothAddress{
		Kind:    bpf.AliothAddressKind(a.Kind),
		Ifindex: uint32(a.Ifindex),
		Node:    bpf.EncodeAddr(a.Node),
		Mac:     a.MAC,
	}
}
