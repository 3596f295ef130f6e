// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// wholePort is where only whole datagrams go, and those in fragments that don't lie.
const wholePort = 4321

// liar makes sequences of frames whose headers contradict each other.
type liar struct {
	*rand.Rand
	w  *world
	id uint16
}

// sender is a pod by its device and addresses.
type sender struct {
	device           int
	ip4, ip6         string
	shadow4, shadow6 string
}

func senders(w *world) []sender {
	return []sender{
		{w.open, "10.0.1.10", "fd10:0:0:1::10", shadowOpen, shadowOpen6},
		{w.podA, "10.0.1.10", "fd10:0:0:1::10", shadowA, ShadowA6},
		{w.twin, "10.0.1.10", "fd10:0:0:1::10", "169.254.64.12", "fd00:a110::12"},
		{w.main, "10.8.1.10", "fd18:0:0:1::10", "169.254.64.14", "fd00:a110::14"},
	}
}

func oneOf[T any](m *liar, list ...T) T { return list[m.IntN(len(list))] }

// base is an honest frame of a pod's.
func (m *liar) base(s sender) frame {
	f := frame{EthDst: state.VirtualMAC, EthSrc: MacA, Src: Ip(s.ip4)}
	f.Dst = Ip(oneOf(m, "10.96.0.10", "10.96.0.10", "10.96.0.1", outside, outside, nodeShadow, "192.0.2.1"))
	if m.IntN(2) == 0 {
		f.Src, f.Dst = Ip(s.ip6), Ip(oneOf(m, "fd96::10", "fd96::10", outside6, nodeShadow6))
		for range m.IntN(3) {
			f.Extensions = append(f.Extensions, extension{oneOf[uint8](m, 60, 60, 0, 43, 51, 135), make([]byte, 6+8*m.IntN(2))})
		}
	}
	f.L4 = m.transport(s, f)
	return f
}

func (m *liar) port() uint16 {
	return oneOf[uint16](m, 53, 53, 443, 1000, 1001, 5353, 6443, 9153, wholePort, programs.DefaultTunnelPort)
}

func (m *liar) transport(s sender, f frame) transport {
	payload := make([]byte, 8*m.IntN(12))
	for i := range payload { // what later becomes of it may be read as headers
		payload[i] = oneOf[byte](m, 0, 0, 6, 17, 53, 60, 58)
	}
	switch m.IntN(8) {
	case 0:
		return tcp{Sport: m.port(), Dport: m.port(), Flags: oneOf[uint8](m, flagSYN, flagACK, flagSYN|flagACK, flagRST), Payload: payload}
	case 1:
		return raw{132, slices.Concat([]byte{3, 232, 0, 53}, make([]byte, 12), payload)}
	case 2:
		if f.Src.Is6() {
			return icmp{V6: true, Type: 128, Body: append([]byte{0, 7, 0, 1}, payload...)}
		}
		return icmp{Type: 8, Body: append([]byte{0, 7, 0, 1}, payload...)}
	case 3, 4:
		return m.complaint(s, f)
	}
	return udp{Sport: m.port(), Dport: m.port(), Payload: payload}
}

// complaint is an ICMP error about a flow of the pod or of another.
func (m *liar) complaint(s sender, f frame) transport {
	own, shadow := s.ip4, oneOf(m, senders(m.w)...).shadow4
	if f.Src.Is6() {
		own, shadow = s.ip6, oneOf(m, senders(m.w)...).shadow6
	}
	about := frame{Src: f.Dst, Dst: Ip(oneOf(m, own, own, shadow)), L4: udp{Sport: m.port(), Dport: m.port(), NoChecksum: true}}
	if m.IntN(6) == 0 {
		about.Src, about.Dst = about.Dst, about.Src
	}
	if m.IntN(4) == 0 && f.Src.Is6() {
		about.Extensions = []extension{{60, make([]byte, 6)}}
	}
	message := icmp{Type: oneOf[uint8](m, 3, 3, 4, 5, 11, 12), Code: uint8(m.IntN(4))}
	if f.Src.Is6() {
		message = icmp{V6: true, Type: oneOf[uint8](m, 1, 1, 2, 3, 4)}
	}
	return quoting(message, about)
}

// sequence returns some frames of a pod that belong together.
func (m *liar) sequence() []sent {
	s := oneOf(m, senders(m.w)...)
	f := m.base(s)
	m.id++
	f.ID = m.id % 8
	var frames [][]byte
	if m.IntN(3) == 0 {
		frames = [][]byte{f.bytes()}
	} else {
		frames = m.fragments(f)
	}
	for i := range frames {
		if m.IntN(3) == 0 {
			frames[i] = m.lie(frames[i])
		}
	}
	if m.IntN(3) == 0 {
		m.Shuffle(len(frames), func(i, j int) { frames[i], frames[j] = frames[j], frames[i] })
	}
	var list []sent
	for _, b := range frames {
		list = append(list, sent{s.device, b})
	}
	return list
}

// fragments cuts a frame into two or three, of which some are replaced or repeated.
func (m *liar) fragments(f frame) (frames [][]byte) {
	payload, next := f.payload(), f.L4.proto()
	if f.Src.Is6() { // extension headers behind the fragment header
		for _, e := range slices.Backward(f.Extensions) {
			payload = slices.Concat([]byte{next, uint8(len(e.Body)+2)/8 - 1}, e.Body, payload)
			next = e.Type
		}
		f.Extensions = nil
	}
	for at := 0; at < len(payload); {
		size := min(8*(1+m.IntN(5)), len(payload)-at)
		part := f.with(func(f *frame) {
			f.Fragment = &fragment{uint16(at / 8), at+size < len(payload)}
			f.L4 = raw{next, slices.Clone(payload[at : at+size])}
		})
		if at > 0 && m.IntN(3) == 0 {
			part.L4 = raw{oneOf[uint8](m, next, state.ProtoTCP, state.ProtoUDP, 60), part.L4.bytes(0)}
		}
		frames = append(frames, part.bytes())
		if m.IntN(4) == 0 { // another one for the same place, or one beside it
			again := part.with(func(f *frame) { f.L4 = raw{next, m.garbage(part.L4.bytes(0))} })
			again.Fragment = &fragment{part.Fragment.Offset + uint16(m.IntN(2)), part.Fragment.More}
			frames = append(frames, again.bytes())
		}
		at += size
	}
	return frames
}

// garbage changes some of the bytes.
func (m *liar) garbage(b []byte) []byte {
	b = slices.Clone(b)
	for range 1 + m.IntN(3) {
		b[m.IntN(len(b))] = oneOf[byte](m, 0, 1, 6, 17, 35, 53, 58, 60, 193)
	}
	return b
}

// lie makes the header of a frame tell another length, puts bytes behind it, or
// changes some.
func (m *liar) lie(b []byte) []byte {
	v4 := binary.BigEndian.Uint16(b[12:]) == 0x0800
	switch m.IntN(4) {
	case 0:
		b = append(b, make([]byte, 8*(1+m.IntN(4)))...)
	case 1, 2:
		at, least := 18, 0
		if v4 {
			at, least = 16, 20
		}
		said := int(binary.BigEndian.Uint16(b[at:])) - 8*m.IntN(6) + oneOf(m, 0, 0, 0, 1, 4)
		binary.BigEndian.PutUint16(b[at:], uint16(max(said, least)))
	case 3:
		from := 20 // next header and what follows
		if v4 {
			from = 34
		}
		if len(b) > from {
			b = slices.Concat(b[:from], m.garbage(b[from:]))
		}
	}
	if v4 {
		return checked(b)
	}
	return b
}

// knownLies are those that have worked, and honest fragments.
func knownLies(w *world) (sequences [][]sent) {
	from := func(device int, frames ...frame) []sent {
		var list []sent
		for _, f := range frames {
			list = append(list, sent{device, f.bytes()})
		}
		return list
	}
	question := fromA6(func(f *frame) { f.Dst = Ip("fd96::10") })
	// Its first fragment shows UDP to the service's port behind its end; the second
	// brings TCP to another.
	hidden := slices.Concat([]byte{60, 0, 1, 4, 0, 0, 0, 0}, []byte{17, 0, 1, 4, 0, 0, 0, 0}, udp{Sport: 1000, Dport: 53}.bytes(0))
	first := sent{w.podA, question.with(func(f *frame) { f.Fragment, f.L4 = &fragment{0, true}, raw{60, hidden} }).bytes()}
	binary.BigEndian.PutUint16(first.frame[18:], 16)
	second := slices.Concat([]byte{state.ProtoTCP, 0, 1, 4, 0, 0, 0, 0}, tcp{Sport: 1000, Dport: 9153, Flags: flagSYN}.bytes(0))
	rest := from(w.podA, question.with(func(f *frame) { f.Fragment, f.L4 = &fragment{1, false}, raw{60, second} }))
	sequences = append(sequences, append([]sent{first}, rest...))
	for _, f := range []frame{fromA(func(f *frame) { f.Dst = Ip(outside) }), fromA6(func(f *frame) { f.Dst = Ip(outside6) })} {
		a, b := datagramIn(f, udp{Sport: 1000, Dport: wholePort}, 99)
		about := frame{Src: f.Dst, Dst: f.Src, L4: udp{Sport: wholePort, Dport: 1000, NoChecksum: true}}
		foreign := about.with(func(f *frame) { f.Dst = netip.MustParseAddr(shadowOpen) })
		message := icmp{Type: 3, Code: 3}
		if f.Src.Is6() {
			message = icmp{V6: true, Type: 1, Code: 4}
			foreign.Dst = Ip(shadowOpen6)
		}
		sequences = append(sequences, from(w.open, a, b),
			from(w.open, f.with(func(f *frame) { f.L4 = quoting(message, about) })),
			from(w.main, fromA(func(g *frame) {
				g.Src, g.Dst = Ip("10.8.1.10"), f.Dst
				if f.Src.Is6() {
					g.Src = Ip("fd18:0:0:1::10")
				}
				g.L4 = quoting(message, foreign)
			})))
	}
	return sequences
}
