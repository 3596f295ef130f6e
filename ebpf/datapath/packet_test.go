// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// frame describes an Ethernet frame. Its zero fields give an ordinary packet.
type frame struct {
	EthDst, EthSrc state.MAC
	EtherType      uint16 // default: that of Src's family
	Src, Dst       netip.Addr
	Hops           uint8 // default 64
	Options        []byte
	Extensions     []extension // IPv6
	Fragment       *fragment
	ID             uint16 // tells datagrams in fragments apart
	Whole          bool   // IPv4: may not be fragmented
	L4             transport
}

// extension is an IPv6 extension header; Body follows the two bytes of next
// header and length.
type extension struct {
	Type uint8
	Body []byte
}

type fragment struct {
	Offset uint16 // in units of 8 bytes
	More   bool
}

// transport is what follows the IP headers.
type transport interface {
	proto() uint8
	// bytes returns the header and payload with a correct checksum, given the
	// sum of the pseudo header.
	bytes(pseudo uint32) []byte
}

type tcp struct {
	Sport, Dport uint16
	Flags        uint8
	Payload      []byte
}

const (
	flagFIN = 0x01
	flagSYN = 0x02
	flagRST = 0x04
	flagACK = 0x10
)

func (tcp) proto() uint8 { return state.ProtoTCP }

func (s tcp) bytes(pseudo uint32) []byte {
	b := make([]byte, 20, 20+len(s.Payload))
	binary.BigEndian.PutUint16(b[0:], s.Sport)
	binary.BigEndian.PutUint16(b[2:], s.Dport)
	binary.BigEndian.PutUint32(b[4:], 0x01020304)
	b[12], b[13] = 5<<4, s.Flags
	binary.BigEndian.PutUint16(b[14:], 512)
	b = append(b, s.Payload...)
	binary.BigEndian.PutUint16(b[16:], fold(sum(pseudo, b)))
	return b
}

type udp struct {
	Sport, Dport uint16
	Payload      []byte
	NoChecksum   bool
}

func (udp) proto() uint8 { return state.ProtoUDP }

func (d udp) bytes(pseudo uint32) []byte {
	b := make([]byte, 8, 8+len(d.Payload))
	binary.BigEndian.PutUint16(b[0:], d.Sport)
	binary.BigEndian.PutUint16(b[2:], d.Dport)
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(d.Payload)))
	b = append(b, d.Payload...)
	if !d.NoChecksum {
		binary.BigEndian.PutUint16(b[6:], fold(sum(pseudo, b)))
	}
	return b
}

// icmp is an ICMP or ICMPv6 message; Body follows the checksum.
type icmp struct {
	V6         bool
	Type, Code uint8
	Body       []byte
}

func (m icmp) proto() uint8 {
	if m.V6 {
		return 58
	}
	return 1
}

func (m icmp) bytes(pseudo uint32) []byte {
	if !m.V6 {
		pseudo = 0
	}
	b := append([]byte{m.Type, m.Code, 0, 0}, m.Body...)
	binary.BigEndian.PutUint16(b[2:], fold(sum(pseudo, b)))
	return b
}

// raw is an opaque payload.
type raw struct {
	Proto uint8
	Data  []byte
}

func (r raw) proto() uint8        { return r.Proto }
func (r raw) bytes(uint32) []byte { return r.Data }

// sum adds big-endian 16-bit words to a running one's complement sum.
func sum(start uint32, b []byte) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		start += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		start += uint32(b[len(b)-1]) << 8
	}
	return start
}

func fold(s uint32) uint16 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}

// bytes builds the frame.
func (f frame) bytes() []byte {
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

// payload returns the transport part, whose checksum covers the addresses. That of a
// fragment before the last is filled up to the length that one can have.
func (f frame) payload() []byte {
	src, dst := f.Src.AsSlice(), f.Dst.AsSlice()
	pseudo := sum(sum(0, src), dst) + uint32(f.L4.proto())
	b := f.L4.bytes(pseudo + uint32(len(f.L4.bytes(0))))
	if f.Fragment != nil && f.Fragment.More {
		b = append(b, make([]byte, -len(b)&7)...)
	}
	return b
}

func (f frame) ipv4() []byte {
	payload := f.payload()
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
	b[8], b[9] = f.Hops, f.L4.proto()
	copy(b[12:], f.Src.AsSlice())
	copy(b[16:], f.Dst.AsSlice())
	b = append(b, f.Options...)
	binary.BigEndian.PutUint16(b[10:], fold(sum(0, b)))
	return append(b, payload...)
}

func (f frame) ipv6() []byte {
	payload := f.payload()
	next := f.L4.proto()
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

// arpFrame builds an ARP packet.
func arpFrame(ethDst, ethSrc state.MAC, op uint16, senderMAC state.MAC, sender netip.Addr, targetMAC state.MAC, target netip.Addr) []byte {
	b := slices.Concat(ethDst[:], ethSrc[:], []byte{8, 6, 0, 1, 8, 0, 6, 4})
	b = binary.BigEndian.AppendUint16(b, op)
	return slices.Concat(b, senderMAC[:], sender.AsSlice(), targetMAC[:], target.AsSlice())
}
