// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Addresses: {VNI, ip} -> local ifindex, node, or gateway.
const addressTable = table[aliothAddressKey, aliothAddress]("addresses")

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
				VNI: key.Vni, IP: decodeAddr(key.Ip), Kind: state.AddressKind(row.Kind),
				Ifindex: int(row.Ifindex), Node: decodeAddr(row.Node), MAC: row.Mac,
			})
		}
	},
}

func addressKey(a state.Address) aliothAddressKey {
	return aliothAddressKey{Vni: a.VNI, Ip: encodeAddr(a.IP)}
}

func encodeAddress(a state.Address) aliothAddress {
	return aliothAddress{
		Kind:    aliothAddressKind(a.Kind),
		Ifindex: uint32(a.Ifindex),
		Node:    encodeAddr(a.Node),
		Mac:     a.MAC,
	}
}
