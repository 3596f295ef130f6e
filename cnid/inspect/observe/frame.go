// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// trialPort is the source port of packets that are made to be asked about.
const trialPort = 50000

// trialPacket is a packet that is made to be asked about: the first of a TCP or
// UDP flow, or an echo request.
type trialPacket struct {
	mac   state.MAC
	from  netip.Addr
	to    netip.AddrPort
	proto uint8
	// size of the IP packet in bytes; at least the size of the headers.
	size int
}

// frame writes the packet. Its checksums are left out, because nothing that
// decides looks at them.
func (p trialPacket) frame() []byte {
	transport := p.transport()
	ip := p.ip(len(transport))
	etherType := uint16(unix.ETH_P_IP)
	if p.from.Is6() {
		etherType = unix.ETH_P_IPV6
	}
	ethernet := binary.BigEndian.AppendUint16(slices.Concat(state.VirtualMAC[:], p.mac[:]), etherType)
	return slices.Concat(ethernet, ip, transport)
}

// transport returns the header and as much payload as the size asks for.
func (p trialPacket) transport() []byte {
	const tcpLen, otherLen, syn = 20, 8, 0x02
	header := make([]byte, otherLen)
	switch p.proto {
	case unix.IPPROTO_TCP:
		header = make([]byte, tcpLen)
		header[12], header[13] = tcpLen/4<<4, syn
	case unix.IPPROTO_ICMP:
		header[0] = 8 // echo request, RFC 792
	case unix.IPPROTO_ICMPV6:
		header[0] = 128 // echo request, RFC 4443
	}
	if p.proto == unix.IPPROTO_TCP || p.proto == unix.IPPROTO_UDP {
		binary.BigEndian.PutUint16(header, trialPort)
		binary.BigEndian.PutUint16(header[2:], p.to.Port())
	}
	header = append(header, make([]byte, max(0, p.size-len(p.ip(0))-len(header)))...)
	if p.proto == unix.IPPROTO_UDP {
		binary.BigEndian.PutUint16(header[4:], uint16(len(header)))
	}
	return header
}

func (p trialPacket) ip(payload int) []byte {
	const hops = 64
	if p.from.Is6() {
		b := make([]byte, 8, 40)
		b[0], b[6], b[7] = 6<<4, p.proto, hops
		binary.BigEndian.PutUint16(b[4:], uint16(payload))
		return slices.Concat(b, p.from.AsSlice(), p.to.Addr().AsSlice())
	}
	b := make([]byte, 12, 20)
	b[0], b[8], b[9] = 4<<4|5, hops, p.proto
	binary.BigEndian.PutUint16(b[2:], uint16(20+payload))
	return slices.Concat(b, p.from.AsSlice(), p.to.Addr().AsSlice())
}

// readFrame reads back a frame of the function frame, also after a program has changed its
// addresses and ports. It returns false for any other frame.
func readFrame(frame []byte) (t telemetry.Tuple, proto uint8, ok bool) {
	const ethernet = 14
	var addrs, l4 []byte
	switch {
	case len(frame) >= ethernet+20 && frame[ethernet]>>4 == 4:
		proto, addrs, l4 = frame[ethernet+9], frame[ethernet+12:ethernet+20], frame[ethernet+20:]
	case len(frame) >= ethernet+40 && frame[ethernet]>>4 == 6:
		proto, addrs, l4 = frame[ethernet+6], frame[ethernet+8:ethernet+40], frame[ethernet+40:]
	default:
		return t, 0, false
	}
	half := len(addrs) / 2
	t.Src, _ = netip.AddrFromSlice(addrs[:half])
	t.Dst, _ = netip.AddrFromSlice(addrs[half:])
	if (proto == unix.IPPROTO_TCP || proto == unix.IPPROTO_UDP) && len(l4) >= 4 {
		t.Sport, t.Dport = binary.BigEndian.Uint16(l4), binary.BigEndian.Uint16(l4[2:])
	}
	return t, proto, true
}
