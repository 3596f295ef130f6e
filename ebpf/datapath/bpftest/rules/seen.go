// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/binary"
	"net/netip"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// seen is a frame's headers as read without following extension headers.
type seen struct {
	all            []byte
	ethDst, ethSrc state.MAC
	ethertype      uint16
	src, dst       netip.Addr
	proto          uint8
	dport          uint16 // without extension headers in between
	ports          bool   // the frame has ports: it is not a later fragment
	opens          bool   // TCP with SYN and without ACK
	sound          bool   // the IPv4 header's checksum is right, or the packet has none
}

func view(b []byte) seen {
	s := seen{all: b, sound: true}
	if len(b) < 14 {
		return s
	}
	s.ethDst, s.ethSrc, s.ethertype = state.MAC(b[0:6]), state.MAC(b[6:12]), binary.BigEndian.Uint16(b[12:])
	l4 := 54
	switch {
	case s.ethertype == 0x0800 && len(b) >= 34:
		s.src, s.dst, s.proto = netip.AddrFrom4([4]byte(b[26:30])), netip.AddrFrom4([4]byte(b[30:34])), b[23]
		l4 = 14 + int(b[14]&15)*4
		s.sound = l4 >= 34 && l4 <= len(b) && wire.Fold(wire.Sum(0, b[14:l4])) == 0
		if binary.BigEndian.Uint16(b[20:])&0x1fff != 0 {
			return s
		}
	case s.ethertype == 0x86dd && len(b) >= 54:
		s.src, s.dst, s.proto = netip.AddrFrom16([16]byte(b[22:38])), netip.AddrFrom16([16]byte(b[38:54])), b[20]
	default:
		return s
	}
	if len(b) >= l4+4 {
		s.ports = s.proto == state.ProtoTCP || s.proto == state.ProtoUDP
		s.dport = binary.BigEndian.Uint16(b[l4+2:])
	}
	if s.proto == state.ProtoTCP && len(b) > l4+13 {
		s.opens = b[l4+13]&(wire.FlagSYN|wire.FlagACK) == wire.FlagSYN
	}
	return s
}
