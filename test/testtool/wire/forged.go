// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

const (
	protocolICMP      = 1
	protocolTCP       = 6
	headerFragment    = 44
	headerDestination = 60
)

// ethernet and ip return the headers in front of a frame's own kind of payload.
func (f Frame) ethernet(payload []byte) []byte {
	kind := uint16(etherIPv4)
	if f.Source.Addr().Is6() {
		kind = etherIPv6
	}
	return append(binary.BigEndian.AppendUint16(slices.Concat(f.TargetMAC, f.SourceMAC), kind), payload...)
}

func (f Frame) ip(protocol byte, payload []byte) []byte {
	if f.Source.Addr().Is6() {
		header := f.header6(len(payload))
		header[6] = protocol
		return append(header, payload...)
	}
	header := f.header4(len(payload))
	header[9] = protocol
	header[10], header[11] = 0, 0
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	return append(header, payload...)
}

// summed puts the checksum of a transport header at an offset in it.
func (f Frame) summed(protocol byte, at int, payload []byte) []byte {
	var pseudo []byte
	if protocol != protocolICMP {
		pseudo = append(f.Source.Addr().AsSlice(), f.Target.Addr().AsSlice()...)
		pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(payload)))
		pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(protocol))
	}
	binary.BigEndian.PutUint16(payload[at:], checksum(append(pseudo, payload...)))
	return payload
}

// PortUnreachable returns an ICMP error (RFC 792, RFC 4443) of the frame's source for
// its target, about a datagram between the quoted ends.
func (f Frame) PortUnreachable(quotedSource, quotedTarget netip.AddrPort) []byte {
	about := Frame{Source: quotedSource, Target: quotedTarget}
	quote := about.ip(protocolUDP, about.datagram())
	if f.Source.Addr().Is6() {
		message := append([]byte{1, 4, 0, 0, 0, 0, 0, 0}, quote...)
		return f.ethernet(f.ip(protocolICMPv6, f.summed(protocolICMPv6, 2, message)))
	}
	message := append([]byte{3, 3, 0, 0, 0, 0, 0, 0}, quote...)
	return f.ethernet(f.ip(protocolICMP, f.summed(protocolICMP, 2, message)))
}

// fragment6 returns a fragment (RFC 8200 section 4.5) at an offset of 8 bytes.
func (f Frame) fragment6(next byte, offset int, more bool, id byte, part []byte) []byte {
	place := uint16(offset)
	if more {
		place |= 1
	}
	header := binary.BigEndian.AppendUint16([]byte{next, 0}, place)
	return f.ethernet(f.ip(headerFragment, slices.Concat(header, []byte{0, 0, 0, id}, part)))
}

// Fragments returns the IPv6 datagram of the frame in two fragments.
func (f Frame) Fragments(id byte) [][]byte {
	datagram := f.datagram()
	return [][]byte{
		f.fragment6(protocolUDP, 0, true, id, datagram[:16]),
		f.fragment6(protocolUDP, 16, false, id, datagram[16:]),
	}
}

// Reset returns a TCP segment between the frame's ends that ends a connection.
func (f Frame) Reset() []byte {
	rst := make([]byte, 20)
	binary.BigEndian.PutUint16(rst, f.Source.Port())
	binary.BigEndian.PutUint16(rst[2:], f.Target.Port())
	rst[12], rst[13] = 5<<4, 4
	return f.ethernet(f.ip(protocolTCP, f.summed(protocolTCP, 16, rst)))
}

// HiddenSYN returns two IPv6 fragments. Behind the end that its header gives, the first
// shows UDP between the frame's ends. With the second it is a TCP opening to a port,
// whose checksum is right between other ends.
func (f Frame) HiddenSYN(seen Frame, port uint16, id byte) [][]byte {
	first := []byte{headerDestination, 0, 1, 4, 0, 0, 0, 0}
	shown := slices.Concat(first, []byte{protocolUDP, 0, 1, 4, 0, 0, 0, 0}, f.datagram())
	lying := f.fragment6(headerDestination, 0, true, id, shown)
	binary.BigEndian.PutUint16(lying[18:], uint16(8+len(first)))
	syn := make([]byte, 20)
	binary.BigEndian.PutUint16(syn, f.Source.Port())
	binary.BigEndian.PutUint16(syn[2:], port)
	syn[12], syn[13], syn[14] = 5<<4, 2, 0xff
	hidden := append([]byte{protocolTCP, 0, 1, 4, 0, 0, 0, 0}, seen.summed(protocolTCP, 16, syn)...)
	return [][]byte{lying, f.fragment6(headerDestination, len(first), false, id, hidden)}
}
