// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"net/netip"

	"github.com/alioth-net/alioth/api/ipfamily"
)

// vniBits are the bits of a prefix key before its address.
const vniBits = 32

// mappedBits are the bits of an IPv6 address before a mapped IPv4 one.
const mappedBits = 96

// EncodeAddr returns the encoding of an address in maps; the zero Addr gives 16 zero
// bytes.
func EncodeAddr(ip netip.Addr) AliothAddr {
	if !ip.IsValid() {
		return AliothAddr{}
	}
	return AliothAddr{B: ip.As16()}
}

// DecodeAddr is the inverse of EncodeAddr.
func DecodeAddr(raw AliothAddr) netip.Addr {
	if raw == (AliothAddr{}) {
		return netip.Addr{}
	}
	return netip.AddrFrom16(raw.B).Unmap()
}

// EncodePrefix returns the key of a range of a VPC.
func EncodePrefix(vni uint32, prefix netip.Prefix) AliothPrefixKey {
	bits := prefix.Bits()
	if prefix.Addr().Is4() {
		bits += mappedBits
	}
	return AliothPrefixKey{Prefixlen: uint32(vniBits + bits), Vni: vni, Ip: EncodeAddr(prefix.Masked().Addr())}
}

// DecodePrefix is the inverse of EncodePrefix.
func DecodePrefix(key AliothPrefixKey) netip.Prefix {
	ip := netip.AddrFrom16(key.Ip.B).Unmap()
	bits := int(key.Prefixlen) - vniBits
	if ip.Is4() {
		bits -= mappedBits
	}
	return netip.PrefixFrom(ip, bits)
}

// NetworkOrder converts a port between the host's and the network's order.
func NetworkOrder(port uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	return binary.NativeEndian.Uint16(b[:])
}

// FamilyOf returns a family as programs have it: the index in arrays of one element for each.
func FamilyOf(family ipfamily.Family) AliothFamily {
	return ipfamily.Pick(family, AliothFamilyFAMILY_V4, AliothFamilyFAMILY_V6)
}
