// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"iter"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// attributes are those of a message (netlink(7)), or what is in one of them.
type attributes []byte

// all yields the attributes in order, up to one that is cut off.
func (a attributes) all() iter.Seq2[uint16, attributes] {
	return func(yield func(uint16, attributes) bool) {
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

// get returns the content of an attribute, nil if there is none.
func (a attributes) get(kind uint16) attributes {
	for k, content := range a.all() {
		if k == kind {
			return content
		}
	}
	return nil
}

// number returns an attribute as an unsigned number of its width, which is 1, 2 or 4
// bytes, and false if there is none.
func (a attributes) number(kind uint16) (uint32, bool) {
	switch content := a.get(kind); len(content) {
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

// value is number with 0 if there is none.
func (a attributes) value(kind uint16) uint32 {
	n, _ := a.number(kind)
	return n
}

// integer returns an attribute for a field of a document, nil if there is none.
func (a attributes) integer(kind uint16) *int {
	if n, ok := a.number(kind); ok {
		return new(int(n))
	}
	return nil
}

// truth is integer for what is true or false.
func (a attributes) truth(kind uint16) *bool {
	if n, ok := a.number(kind); ok {
		return new(n != 0)
	}
	return nil
}

// big returns an attribute of 16 bits in the order of bytes of networks, 0 if there is none.
func (a attributes) big(kind uint16) uint16 {
	if content := a.get(kind); len(content) == 2 {
		return binary.BigEndian.Uint16(content)
	}
	return 0
}

// text returns an attribute that ends with a zero byte.
func (a attributes) text(kind uint16) string {
	text, _, _ := strings.Cut(string(a.get(kind)), "\x00")
	return text
}

// address returns an attribute with an address, the zero one if there is none.
func (a attributes) address(kind uint16) netip.Addr {
	address, _ := netip.AddrFromSlice(a.get(kind))
	return address
}

// sized makes an attribute with a number of 1, 2 or 4 bytes.
func sized(kind uint16, width int, value uint32) *nl.RtAttr {
	switch width {
	case 1:
		return nl.NewRtAttr(int(kind), nl.Uint8Attr(uint8(value)))
	case 2:
		return nl.NewRtAttr(int(kind), nl.Uint16Attr(uint16(value)))
	default:
		return nl.NewRtAttr(int(kind), nl.Uint32Attr(value))
	}
}

// bigEndian makes an attribute of 16 bits in the order of bytes of networks.
func bigEndian(kind uint16, value uint16) *nl.RtAttr {
	return nl.NewRtAttr(int(kind), binary.BigEndian.AppendUint16(nil, value))
}

// nested makes an attribute of others.
func nested(kind uint16, list []*nl.RtAttr) *nl.RtAttr {
	outer := nl.NewRtAttr(int(kind)|unix.NLA_F_NESTED, nil)
	for _, inner := range list {
		outer.AddChild(inner)
	}
	return outer
}

// zeroEnded makes an attribute of a text.
func zeroEnded(kind uint16, text string) *nl.RtAttr {
	return nl.NewRtAttr(int(kind), nl.ZeroTerminated(text))
}

// settings collects attributes for the fields of a document that are there.
type settings []*nl.RtAttr

func (s *settings) add(attribute *nl.RtAttr) { *s = append(*s, attribute) }

func (s *settings) integer(kind uint16, width int, value *int) {
	if value != nil {
		s.add(sized(kind, width, uint32(*value)))
	}
}

// truth adds what is true or false, in one byte.
func (s *settings) truth(kind uint16, value *bool) {
	if value != nil {
		s.add(sized(kind, 1, bit(*value)))
	}
}

func bit(value bool) uint32 {
	if value {
		return 1
	}
	return 0
}
