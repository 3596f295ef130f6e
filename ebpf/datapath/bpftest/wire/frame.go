// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Frame describes an Ethernet frame. Its zero fields give an ordinary packet.
type Frame struct {
	EthDst, EthSrc state.MAC
	EtherType      uint16 // default: the type of Src's family
	Src, Dst       netip.Addr
	Hops           uint8 // default 64
	Options        []byte
	Extensions     []Extension // IPv6
	Fragment       *Fragment
	ID             uint16 // tells datagrams in fragments apart
	Whole          bool   // IPv4: may not be fragmented
	L4             Transport
}

// Extension is an IPv6 extension header; Body follows the two bytes of next
// header and length.
type Extension struct {
	Type uint8
	Body []byte
}

// Fragment makes a frame a fragment of a datagram.
type Fragment struct {
	Offset uint16 // in units of 8 bytes
	More   bool
}

// Transport is the part behind the IP headers.
type Transport interface {
	Protocol() uint8
	// Bytes returns the header and payload with a correct checksum, given the
	// sum of the pseudo header.
	Bytes(pseudo uint32) []byte
}

// TCP is a segment.
type TCP struct {
	Sport, Dport uint16
	Flags        uint8
	Payload      []byte
}

// Flags of TCP.
const (
	FlagFIN = 0x01
	FlagSYN = 0x02
	FlagRST = 0x04
	FlagACK = 0x10
)

// Protocol returns the number of TCP.
func (TCP) Protocol() uint8 { return state.ProtoTCP }

// Bytes returns the segment with its checksum.
func (s TCP) Bytes(pseudo uint32) []byte {
	b := make([]byte, 20, 20+len(s.Payload))
	binary.BigEndian.PutUint16(b[0:], s.Sport)
	binary.BigEndian.PutUint16(b[2:], s.Dport)
	binary.BigEndian.PutUint32(b[4:], 0x01020304)
	b[12], b[13] = 5<<4, s.Flags
	binary.BigEndian.PutUint16(b[14:], 512)
	b = append(b, s.Payload...)
	binary.BigEndian.PutUint16(b[16:], Fold(Sum(pseudo, b)))
	return b
}

// UDP is a datagram.
type UDP struct {
	Sport, Dport uint16
	Payload      []byte
	NoChecksum   bool
}

// Protocol returns the number of UDP.
func (UDP) Protocol() uint8 { return state.ProtoUDP }

// Bytes returns the datagram with its checksum.
func (d UDP) Bytes(pseudo uint32) []byte {
	b := make([]byte, 8, 8+len(d.Payload))
	binary.BigEndian.PutUint16(b[0:], d.Sport)
	binary.BigEndian.PutUint16(b[2:], d.Dport)
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(d.Payload)))
	b = append(b, d.Payload...)
	if !d.NoChecksum {
		binary.BigEndian.PutUint16(b[6:], Fold(Sum(pseudo, b)))
	}
	return b
}

// ICMP is an ICMP or ICMPv6 message; Body follows the checksum.
type ICMP struct {
	V6         bool
	Type, Code uint8
	Body       []byte
}

// Protocol returns the number of ICMP or ICMPv6.
func (m ICMP) Protocol() uint8 {
	if m.V6 {
		return 58
	}
	return 1
}

// Bytes returns the message with its checksum.
func (m ICMP) Bytes(pseudo uint32) []byte {
	if !m.V6 {
		pseudo = 0
	}
	b := append([]byte{m.Type, m.Code, 0, 0}, m.Body...)
	binary.BigEndian.PutUint16(b[2:], Fold(Sum(pseudo, b)))
	return b
}

// Raw is an opaque payload.
type Raw struct {
	Proto uint8
	Data  []byte
}

// Protocol returns the number that the payload is announced with.
func (r Raw) Protocol() uint8 { return r.Proto }

// Bytes returns the payload as it is.
func (r Raw) Bytes(uint32) []byte { return r.Data }

// Sum adds big-endian 16-bit words to a running one's complement sum.
func Sum(start uint32, b []byte) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		start += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		start += uint32(b[len(b)-1]) << 8
	}
	return start
}

// Fold returns the checksum of a sum.
func Fold(s uint32) uint16 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}

// Bytes builds the frame.
func (f Frame) Bytes() []byte {
	if f.EtherType == 0 {
		f.EtherType = 0x0800
		if f.Src.Is6() {
			f.EtherType = 0x86dd
		}
	}
	if f.Hops == 0 {
		f.Hops = 64
	}
	b := slices.Concat(f.EthDst[:], f.EthSrc[:])
	b = binary.BigEndian.AppendUint16(b, f.EtherType)
	if f.Src.Is6() {
		return append(b, f.ipv6()...)
	}
	return append(b, f.ipv4()...)
}

// Payload returns the transport part, whose checksum covers the addresses. It fills up the
// transport part of a fragment before the last to the possible length.
func (f Frame) Payload() []byte {
	src, dst := f.Src.AsSlice(), f.Dst.AsSlice()
	pseudo := Sum(Sum(0, src), dst) + uint32(f.L4.Protocol())
	b := f.L4.Bytes(pseudo + uint32(len(f.L4.Bytes(0))))
	if f.Fragment != nil && f.Fragment.More {
		b = append(b, make([]byte, -len(b)&7)...)
	}
	return b
}

func (f Frame) ipv4() []byte {
	payload := f.Payload()
	b := make([]byte, 20)
	b[0] = 4<<4 | uint8(5+len(f.Options)/4)
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(f.Options)+len(payload)))
	binary.BigEndian.PutUint16(b[4:], 0x1234+f.ID)
	if f.Fragment != nil {
		word := f.Fragment.Offset
		if f.Fragment.More {
			word |= 0x2000
		}
		binary.BigEndian.PutUint16(b[6:], word)
	}
	if f.Whole {
		b[6] |= 0x40
	}
	b[8], b[9] = f.Hops, f.L4.Protocol()
	copy(b[12:], f.Src.AsSlice())
	copy(b[16:], f.Dst.AsSlice())
	b = append(b, f.Options...)
	binary.BigEndian.PutUint16(b[10:], Fold(Sum(0, b)))
	return append(b, payload...)
}

func (f Frame) ipv6() []byte {
	payload := f.Payload()
	next := f.L4.Protocol()
	if f.Fragment != nil {
		word := f.Fragment.Offset << 3
		if f.Fragment.More {
			word |= 1
		}
		hdr := binary.BigEndian.AppendUint16([]byte{next, 0}, word)
		payload = slices.Concat(binary.BigEndian.AppendUint32(hdr, 0x1234+uint32(f.ID)), payload)
		next = 44
	}
	for _, e := range slices.Backward(f.Extensions) {
		length := uint8(len(e.Body)+2)/8 - 1
		if e.Type == 51 { // RFC 4302 counts in units of 4 bytes, less 2
			length = uint8(len(e.Body)+2)/4 - 2
		}
		payload = slices.Concat([]byte{next, length}, e.Body, payload)
		next = e.Type
	}
	b := make([]byte, 40)
	b[0] = 6 << 4
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	b[6], b[7] = next, f.Hops
	copy(b[8:], f.Src.AsSlice())
	copy(b[24:], f.Dst.AsSlice())
	return append(b, payload...)
}

// ARP builds an ARP packet.
func ARP(
	ethDst, ethSrc state.MAC,
	op uint16,
	senderMAC state.MAC,
	sender netip.Addr,
	targetMAC state.MAC,
	target netip.Addr,
) []byte {
	b := slices.Concat(ethDst[:], ethSrc[:], []byte{8, 6, 0, 1, 8, 0, 6, 4})
	b = binary.BigEndian.AppendUint16(b, op)
	return slices.Concat(b, senderMAC[:], sender.AsSlice(), targetMAC[:], target.AsSlice())
}

// Quoting makes an ICMP error about a packet.
func Quoting(m ICMP, about Frame) ICMP {
	m.Body = append(make([]byte, 4), about.Bytes()[14:]...)
	return m
}

// Checked renews the checksum of a frame's IPv4 header.
func Checked(b []byte) []byte {
	b[24], b[25] = 0, 0
	binary.BigEndian.PutUint16(b[24:], Fold(Sum(0, b[14:14+int(b[14]&15)*4])))
	return b
}

// IP and Px read addresses and prefixes.
var (
	IP     = netip.MustParseAddr
	Prefix = netip.MustParsePrefix
)

// With returns a changed copy, for the packet that is expected to come out.
func (f Frame) With(mutate func(*Frame)) Frame {
	mutate(&f)
	return f
}
