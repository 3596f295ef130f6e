// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"net/netip"
)

// textKey joins texts into a key, each closed by a zero byte, which no name in
// Kubernetes contains: so no key is a prefix of a longer name's key.
func textKey(parts ...string) []byte {
	size := len(parts)
	for _, part := range parts {
		size += len(part)
	}
	key := make([]byte, 0, size)
	for _, part := range parts {
		key = append(key, part...)
		key = append(key, 0)
	}
	return key
}

// ipKey appends an address in its 16 byte form, IPv4 v4-mapped, so that
// addresses of one family sort by their number.
func ipKey(key []byte, ip netip.Addr) []byte {
	bytes := ip.As16()
	return append(key, bytes[:]...)
}

func vniKey(vni uint32) []byte {
	return binary.BigEndian.AppendUint32(nil, vni)
}
