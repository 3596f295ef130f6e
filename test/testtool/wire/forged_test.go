// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

func TestPortUnreachable_QuotedDatagram_ChecksumValid(t *testing.T) {
	for _, ends := range [][3]string{{"10.0.1.1:0", "10.0.1.2:0", "10.0.1.3:80"}, {"[fd10::1]:0", "[fd10::2]:0", "[fd10::3]:80"}} {
		source, target, quoted := netip.MustParseAddrPort(ends[0]), netip.MustParseAddrPort(ends[1]), netip.MustParseAddrPort(ends[2])
		f := frame(ends[0], ends[1])
		packet := f.PortUnreachable(target, quoted)[14:]
		header, pseudo := 20, []byte(nil)
		if source.Addr().Is6() {
			header = 40
			pseudo = slices.Concat(packet[8:40], binary.BigEndian.AppendUint32(nil, uint32(len(packet)-40)), []byte{0, 0, 0, protocolICMPv6})
		} else if checksum(packet[:20]) != 0 {
			t.Errorf("the sum of the header of %x is wrong", packet)
		}
		if checksum(slices.Concat(pseudo, packet[header:])) != 0 {
			t.Errorf("the sum of %x is wrong", packet)
		}
		if quote := packet[header+8:]; !bytes.Contains(quote[:header], slices.Concat(target.Addr().AsSlice(), quoted.Addr().AsSlice())) {
			t.Errorf("%x quotes other addresses than %s and %s", quote, target, quoted)
		}
	}
}

func TestFragments_Joined_AreDatagram(t *testing.T) {
	f := frame("[fd10::1]:1000", "[fd10::2]:53")
	f.Payload = []byte("a question that is long enough to be cut")
	const header = 14 + 40 + 8
	var together []byte
	for i, part := range f.Fragments(1) {
		if at := binary.BigEndian.Uint16(part[56:]); int(at&^7) != len(together) || at&1 == uint16(i) {
			t.Errorf("fragment %d has the offset %#x", i, at)
		}
		if length := int(binary.BigEndian.Uint16(part[18:])); length != len(part)-54 {
			t.Errorf("fragment %d of %d bytes says %d", i, len(part), length)
		}
		together = append(together, part[header:]...)
	}
	if !bytes.Equal(together, f.datagram()) {
		t.Errorf("together they are %x", together)
	}
}

func TestHiddenSYN_FirstFragment_EndsBeforeShown(t *testing.T) {
	f := frame("[fd10::1]:1000", "[fd10::2]:53")
	parts := f.HiddenSYN(f, 9153, 1)
	if length := int(binary.BigEndian.Uint16(parts[0][18:])); length != 16 || len(parts[0]) <= 54+length {
		t.Errorf("the first fragment of %d bytes says %d", len(parts[0]), length)
	}
	if tcp := parts[1][54+16:]; tcp[0] != 1000>>8 || binary.BigEndian.Uint16(tcp[2:]) != 9153 || tcp[13] != 2 {
		t.Errorf("the second brings %x", tcp)
	}
}
