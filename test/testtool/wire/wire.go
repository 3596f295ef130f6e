// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire builds packets with any source and sends them past the kernel's own checks, to show
// that the network refuses them where it must.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Frame is an Ethernet frame with one UDP datagram (RFC 768) over IPv4 or
// IPv6.
type Frame struct {
	SourceMAC, TargetMAC net.HardwareAddr
	// Source and Target are of one family.
	Source, Target netip.AddrPort
	Payload        []byte
}

const (
	etherIPv4, etherIPv6 = 0x0800, 0x86dd
	protocolUDP          = 17
	hopLimit             = 64
)

// Encode returns the frame's bytes with correct checksums.
func (f Frame) Encode() ([]byte, error) {
	if f.Source.Addr().Is4() != f.Target.Addr().Is4() {
		return nil, errors.New("source and target must be of one address family")
	}
	if len(f.SourceMAC) != 6 || len(f.TargetMAC) != 6 {
		return nil, errors.New("source and target need a MAC of 6 bytes each")
	}
	if len(f.Payload) > 1400 {
		return nil, fmt.Errorf("payload of %d bytes does not fit into one frame", len(f.Payload))
	}
	frame := append([]byte{}, f.TargetMAC...)
	frame = append(frame, f.SourceMAC...)
	udp := f.datagram()
	if f.Source.Addr().Is4() {
		frame = binary.BigEndian.AppendUint16(frame, etherIPv4)
		frame = append(frame, f.header4(len(udp))...)
	} else {
		frame = binary.BigEndian.AppendUint16(frame, etherIPv6)
		frame = append(frame, f.header6(len(udp))...)
	}
	return append(frame, udp...), nil
}

func (f Frame) datagram() []byte {
	length := 8 + len(f.Payload)
	udp := binary.BigEndian.AppendUint16(nil, f.Source.Port())
	udp = binary.BigEndian.AppendUint16(udp, f.Target.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(length))
	udp = append(udp, 0, 0)
	udp = append(udp, f.Payload...)
	pseudo := append(f.Source.Addr().AsSlice(), f.Target.Addr().AsSlice()...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(length))
	pseudo = binary.BigEndian.AppendUint32(pseudo, protocolUDP)
	sum := checksum(append(pseudo, udp...))
	if sum == 0 {
		sum = 0xffff // 0 means "no checksum" (RFC 768)
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
	return udp
}

func (f Frame) header4(payload int) []byte {
	header := make([]byte, 20)
	header[0] = 0x45
	binary.BigEndian.PutUint16(header[2:], uint16(20+payload))
	header[8], header[9] = hopLimit, protocolUDP
	copy(header[12:], f.Source.Addr().AsSlice())
	copy(header[16:], f.Target.Addr().AsSlice())
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	return header
}

func (f Frame) header6(payload int) []byte {
	header := make([]byte, 40)
	header[0] = 0x60
	binary.BigEndian.PutUint16(header[4:], uint16(payload))
	header[6], header[7] = protocolUDP, hopLimit
	copy(header[8:], f.Source.Addr().AsSlice())
	copy(header[24:], f.Target.Addr().AsSlice())
	return header
}

// checksum returns the Internet checksum of RFC 1071.
func checksum(data []byte) uint16 {
	var sum uint32
	for ; len(data) >= 2; data = data[2:] {
		sum += uint32(binary.BigEndian.Uint16(data))
	}
	if len(data) == 1 {
		sum += uint32(data[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// VXLAN puts the header of RFC 7348 before an inner frame.
func VXLAN(vni uint32, inner []byte) ([]byte, error) {
	if vni == 0 || vni >= 1<<24 {
		return nil, fmt.Errorf("vni %d is not in 1 to 16777215", vni)
	}
	header := []byte{0x08, 0, 0, 0, byte(vni >> 16), byte(vni >> 8), byte(vni), 0}
	return append(header, inner...), nil
}
