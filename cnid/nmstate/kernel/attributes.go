// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/attribute"
)

type attributes = attribute.List

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
