// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// IsStatic reports whether somebody made a neighbour, and the kernel did not learn it.
func IsStatic(m Message) bool {
	if len(m) < HeaderOfNeighbor {
		return false
	}
	const state, flags = 8, 10
	if bridge := Neighbors().Attributes(m).Value(unix.NDA_MASTER); m[0] == unix.AF_BRIDGE &&
		(bridge == DeviceOf(m) || bridge == 0 && Neighbors().Attributes(m).Get(unix.NDA_DST) == nil) {
		return false // a bridge's own, or a group that a device receives
	}
	return m[state]&unix.NUD_PERMANENT != 0 || m[flags]&unix.NTF_EXT_LEARNED != 0 ||
		m[0] == unix.AF_BRIDGE && m[state]&unix.NUD_NOARP != 0
}

// PlaceOfNeighbor tells neighbours and entries from others that can be there with them. A bridge
// has an address of a VLAN at one port; a tunnel without a bridge may have it at several others.
func PlaceOfNeighbor(m Message) string {
	const flags = 10
	list := Neighbors().Attributes(m)
	if bridge := list.Get(unix.NDA_MASTER); bridge != nil {
		return fmt.Sprintf("bridge %x %x %x", bridge, list.Get(unix.NDA_VLAN), list.Get(unix.NDA_LLADDR))
	}
	if m[0] == unix.AF_BRIDGE {
		return Neighbors().Canonical(m)
	}
	return fmt.Sprintf("%d %d %t %x", m[0], DeviceOf(m), m[flags]&unix.NTF_PROXY != 0, list.Get(unix.NDA_DST))
}

// LastingEntry returns a neighbour or an entry of a bridge as a request has it. A dump does not
// tell whether a proxy is permanent. The kernel removes any other with the carrier, and none
// was removed so far.
func LastingEntry(m Message) Message {
	const state, flags = 8, 10
	if m[flags]&unix.NTF_PROXY == 0 {
		return m
	}
	m = slices.Clone(m)
	binary.NativeEndian.PutUint16(m[state:], unix.NUD_PERMANENT)
	return m
}

// CarrierOf returns where a neighbour or an entry leads to.
func CarrierOf(m Message) string {
	list := Neighbors().Attributes(m)
	return string(m[4:8]) + string(list.Get(unix.NDA_LLADDR)) + string(list.Get(unix.NDA_DST))
}
