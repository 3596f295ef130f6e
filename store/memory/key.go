// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"encoding/binary"
	"net/netip"
)

// TextKey joins texts into a key, each closed by a zero byte, which no name in
// Kubernetes contains: so no key is a prefix of a longer name's key.
func TextKey(parts ...string) []byte {
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

// IPKey appends an address in its 16 byte form, IPv4 v4-mapped, so that
// addresses of one family sort by their number.
func IPKey(key []byte, ip netip.Addr) []byte {
	bytes := ip.As16()
	return append(key, bytes[:]...)
}

// NumberKey returns the key of a number; keys sort as the numbers.
func NumberKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32(nil, number)
}
