// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attribute reads the attributes of rtnetlink(7) messages.
package attribute

import (
	"encoding/binary"
	"iter"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// List has the attributes of a message (netlink(7)), or the content of an attribute.
type List []byte

// All yields the attributes in order, up to one that is cut off.
func (a List) All() iter.Seq2[uint16, List] {
	return func(yield func(uint16, List) bool) {
		for rest := a; len(rest) >= unix.SizeofRtAttr; {
			length := int(binary.NativeEndian.Uint16(rest))
			if length < unix.SizeofRtAttr || length > len(rest) {
				return
			}
			// The highest two bits are flags.
			kind := binary.NativeEndian.Uint16(rest[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, rest[unix.SizeofRtAttr:length]) {
				return
			}
			aligned := (length + unix.NLA_ALIGNTO - 1) &^ (unix.NLA_ALIGNTO - 1)
			rest = rest[min(aligned, len(rest)):]
		}
	}
}

// Get returns the content of an attribute, nil if the list lacks it.
func (a List) Get(kind uint16) List {
	for k, content := range a.All() {
		if k == kind {
			return content
		}
	}
	return nil
}

// Number returns an attribute as an unsigned number of its width, which is 1, 2 or 4 bytes, and
// false if the list lacks it.
func (a List) Number(kind uint16) (uint32, bool) {
	switch content := a.Get(kind); len(content) {
	case 1:
		return uint32(content[0]), true
	case 2:
		return uint32(binary.NativeEndian.Uint16(content)), true
	case 4:
		return binary.NativeEndian.Uint32(content), true
	default:
		return 0, false
	}
}

// Value returns Number, with 0 if the list lacks the attribute.
func (a List) Value(kind uint16) uint32 {
	n, _ := a.Number(kind)
	return n
}

// Integer returns an attribute for a field of a document, nil if the list lacks it.
func (a List) Integer(kind uint16) *int {
	if n, ok := a.Number(kind); ok {
		return new(int(n))
	}
	return nil
}

// Wide does the same as Integer for a number of 8 bytes.
func (a List) Wide(kind uint16) *int {
	const width = 8
	if content := a.Get(kind); len(content) == width {
		return new(int(binary.NativeEndian.Uint64(content)))
	}
	return nil
}

// Truth returns an attribute like Integer, as true or false.
func (a List) Truth(kind uint16) *bool {
	if n, ok := a.Number(kind); ok {
		return new(n != 0)
	}
	return nil
}

// Big returns an attribute of 16 bits in the order of bytes of networks, 0 if the list lacks it.
func (a List) Big(kind uint16) uint16 {
	if content := a.Get(kind); len(content) == 2 {
		return binary.BigEndian.Uint16(content)
	}
	return 0
}

// Text returns an attribute that ends with a zero byte.
func (a List) Text(kind uint16) string {
	text, _, _ := strings.Cut(string(a.Get(kind)), "\x00")
	return text
}

// Address returns an attribute with an address, the zero one if the list lacks it.
func (a List) Address(kind uint16) netip.Addr {
	address, _ := netip.AddrFromSlice(a.Get(kind))
	return address
}
