// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/system/attribute"
)

type attributes = attribute.List

// Sized makes an attribute with a number of 1, 2 or 4 bytes.
func Sized(kind uint16, width int, value uint32) *nl.RtAttr {
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

// Nested makes an attribute of others.
func Nested(kind uint16, list []*nl.RtAttr) *nl.RtAttr {
	outer := nl.NewRtAttr(int(kind)|unix.NLA_F_NESTED, nil)
	for _, inner := range list {
		outer.AddChild(inner)
	}
	return outer
}

// ZeroEnded makes an attribute of a text.
func ZeroEnded(kind uint16, text string) *nl.RtAttr {
	return nl.NewRtAttr(int(kind), nl.ZeroTerminated(text))
}

// Settings collects attributes for the fields of a document that are there.
type Settings []*nl.RtAttr

// Add adds an attribute.
func (s *Settings) Add(attribute *nl.RtAttr) { *s = append(*s, attribute) }

// Integer adds a number of a width in bytes, if it is there.
func (s *Settings) Integer(kind uint16, width int, value *int) {
	if value != nil {
		s.Add(Sized(kind, width, uint32(*value)))
	}
}

// Truth adds a value that is true or false, in one byte, if it is there.
func (s *Settings) Truth(kind uint16, value *bool) {
	if value != nil {
		s.Add(Sized(kind, 1, Bit(*value)))
	}
}

// Bit returns 1 for true, and 0 for false.
func Bit(value bool) uint32 {
	if value {
		return 1
	}
	return 0
}

// Requests returns a header and attributes as one list.
func Requests(header nl.NetlinkRequestData, list []*nl.RtAttr) []nl.NetlinkRequestData {
	all := []nl.NetlinkRequestData{header}
	for _, attribute := range list {
		all = append(all, attribute)
	}
	return all
}

// Common adds what devices of all types have.
func (s *Settings) Common(want document.Interface) error {
	if want.MACAddress != "" {
		mac, err := net.ParseMAC(want.MACAddress)
		if err != nil {
			return fmt.Errorf("mac-address: %w", err)
		}
		s.Add(nl.NewRtAttr(unix.IFLA_ADDRESS, mac))
	}
	s.Integer(unix.IFLA_MTU, 4, want.MTU)
	return nil
}
