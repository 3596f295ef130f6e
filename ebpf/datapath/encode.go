// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"net/netip"
)

// vniBits are the bits of a prefix key before its address.
const vniBits = 32

// mappedBits are the bits of an IPv6 address before a mapped IPv4 one.
const mappedBits = 96

// encodeAddr returns the form in which maps hold an address; the zero Addr gives
// 16 zero bytes.
func encodeAddr(ip netip.Addr) aliothAddr {
	if !ip.IsValid() {
		return aliothAddr{}
	}
	return aliothAddr{B: ip.As16()}
}

// decodeAddr is the inverse of encodeAddr.
func decodeAddr(raw aliothAddr) netip.Addr {
	if raw == (aliothAddr{}) {
		return netip.Addr{}
	}
	return netip.AddrFrom16(raw.B).Unmap()
}

// encodePrefix returns the key of a range of a VPC.
func encodePrefix(vni uint32, prefix netip.Prefix) aliothPrefixKey {
	bits := prefix.Bits()
	if prefix.Addr().Is4() {
		bits += mappedBits
	}
	return aliothPrefixKey{Prefixlen: uint32(vniBits + bits), Vni: vni, Ip: encodeAddr(prefix.Masked().Addr())}
}

// decodePrefix is the inverse of encodePrefix.
func decodePrefix(key aliothPrefixKey) netip.Prefix {
	ip := netip.AddrFrom16(key.Ip.B).Unmap()
	bits := int(key.Prefixlen) - vniBits
	if ip.Is4() {
		bits -= mappedBits
	}
	return netip.PrefixFrom(ip, bits)
}

// networkOrder converts a port between the host's and the network's order.
func networkOrder(port uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	return binary.NativeEndian.Uint16(b[:])
}

// familyIndex is the index of an address's family in per-family arrays.
func familyIndex(ip netip.Addr) aliothFamily {
	if ip.Is4() {
		return aliothFamilyFAMILY_V4
	}
	return aliothFamilyFAMILY_V6
}
