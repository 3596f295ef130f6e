// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package forged_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// wholePort receives only whole datagrams, and datagrams in fragments that don't lie.
const wholePort = 4321

// liar makes sequences of frames whose headers contradict each other.
type liar struct {
	*rand.Rand
	w  *world.World
	id uint16
}

// sender is a pod by its device and addresses.
type sender struct {
	device           int
	ip4, ip6         string
	shadow4, shadow6 string
}

func senders(w *world.World) []sender {
	return []sender{
		{w.Open, "10.0.1.10", "fd10:0:0:1::10", world.ShadowOpen, world.ShadowOpen6},
		{w.PodA, "10.0.1.10", "fd10:0:0:1::10", world.ShadowA, world.ShadowA6},
		{w.Twin, "10.0.1.10", "fd10:0:0:1::10", "169.254.64.12", "fd00:a110::12"},
		{w.Main, "10.8.1.10", "fd18:0:0:1::10", "169.254.64.14", "fd00:a110::14"},
	}
}

func oneOf[T any](m *liar, list ...T) T { return list[m.IntN(len(list))] }

// base returns an honest frame of a pod's.
func (m *liar) base(s sender) wire.Frame {
	f := wire.Frame{EthDst: state.VirtualMAC, EthSrc: world.MacA, Src: wire.IP(s.ip4)}
	f.Dst = wire.IP(oneOf(m, "10.96.0.10", "10.96.0.10", "10.96.0.1", world.Outside, world.Outside, world.NodeShadow, "192.0.2.1"))
	if m.IntN(2) == 0 {
		f.Src, f.Dst = wire.IP(s.ip6), wire.IP(oneOf(m, "fd96::10", "fd96::10", world.Outside6, world.NodeShadow6))
		for range m.IntN(3) {
			f.Extensions = append(f.Extensions, wire.Extension{Type: oneOf[uint8](m, 60, 60, 0, 43, 51, 135), Body: make([]byte, 6+8*m.IntN(2))})
		}
	}
	f.L4 = m.transport(s, f)
	return f
}

func (m *liar) port() uint16 {
	return oneOf[uint16](m, 53, 53, 443, 1000, 1001, 5353, 6443, 9153, wholePort, programs.DefaultTunnelPort)
}

func (m *liar) transport(s sender, f wire.Frame) wire.Transport {
	payload := make([]byte, 8*m.IntN(12))
	for i := range payload { // bytes that a later change may turn into headers
		payload[i] = oneOf[byte](m, 0, 0, 6, 17, 53, 60, 58)
	}
	switch m.IntN(8) {
	case 0:
		return wire.TCP{
			Sport:   m.port(),
			Dport:   m.port(),
			Flags:   oneOf[uint8](m, wire.FlagSYN, wire.FlagACK, wire.FlagSYN|wire.FlagACK, wire.FlagRST),
			Payload: payload,
		}
	case 1:
		return wire.Raw{Proto: 132, Data: slices.Concat([]byte{3, 232, 0, 53}, make([]byte, 12), payload)}
	case 2:
		if f.Src.Is6() {
			return wire.ICMP{V6: true, Type: 128, Body: append([]byte{0, 7, 0, 1}, payload...)}
		}
		return wire.ICMP{Type: 8, Body: append([]byte{0, 7, 0, 1}, payload...)}
	case 3, 4:
		return m.complaint(s, f)
	}
	return wire.UDP{Sport: m.port(), Dport: m.port(), Payload: payload}
}

// complaint returns an ICMP error about a flow of the pod or of another.
func (m *liar) complaint(s sender, f wire.Frame) wire.Transport {
	own, shadow := s.ip4, oneOf(m, senders(m.w)...).shadow4
	if f.Src.Is6() {
		own, shadow = s.ip6, oneOf(m, senders(m.w)...).shadow6
	}
	about := wire.Frame{Src: f.Dst, Dst: wire.IP(oneOf(m, own, own, shadow)), L4: wire.UDP{Sport: m.port(), Dport: m.port(), NoChecksum: true}}
	if m.IntN(6) == 0 {
		about.Src, about.Dst = about.Dst, about.Src
	}
	if m.IntN(4) == 0 && f.Src.Is6() {
		about.Extensions = []wire.Extension{{Type: 60, Body: make([]byte, 6)}}
	}
	message := wire.ICMP{Type: oneOf[uint8](m, 3, 3, 4, 5, 11, 12), Code: uint8(m.IntN(4))}
	if f.Src.Is6() {
		message = wire.ICMP{V6: true, Type: oneOf[uint8](m, 1, 1, 2, 3, 4)}
	}
	return wire.Quoting(message, about)
}

// sequence returns some frames of a pod that belong together.
func (m *liar) sequence() []sent {
	s := oneOf(m, senders(m.w)...)
	f := m.base(s)
	m.id++
	f.ID = m.id % 8
	var frames [][]byte
	if m.IntN(3) == 0 {
		frames = [][]byte{f.Bytes()}
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

// fragments cuts a frame into two or three fragments. It replaces or repeats some of them.
func (m *liar) fragments(f wire.Frame) (frames [][]byte) {
	payload, next := f.Payload(), f.L4.Protocol()
	if f.Src.Is6() { // extension headers behind the fragment header
		for _, e := range slices.Backward(f.Extensions) {
			payload = slices.Concat([]byte{next, uint8(len(e.Body)+2)/8 - 1}, e.Body, payload)
			next = e.Type
		}
		f.Extensions = nil
	}
	for at := 0; at < len(payload); {
		size := min(8*(1+m.IntN(5)), len(payload)-at)
		part := f.With(func(f *wire.Frame) {
			f.Fragment = &wire.Fragment{Offset: uint16(at / 8), More: at+size < len(payload)}
			f.L4 = wire.Raw{Proto: next, Data: slices.Clone(payload[at : at+size])}
		})
		if at > 0 && m.IntN(3) == 0 {
			part.L4 = wire.Raw{Proto: oneOf[uint8](m, next, state.ProtoTCP, state.ProtoUDP, 60), Data: part.L4.Bytes(0)}
		}
		frames = append(frames, part.Bytes())
		if m.IntN(4) == 0 { // another fragment for the same place, or one beside it
			again := part.With(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: next, Data: m.garbage(part.L4.Bytes(0))} })
			again.Fragment = &wire.Fragment{Offset: part.Fragment.Offset + uint16(m.IntN(2)), More: part.Fragment.More}
			frames = append(frames, again.Bytes())
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
		reported := int(binary.BigEndian.Uint16(b[at:])) - 8*m.IntN(6) + oneOf(m, 0, 0, 0, 1, 4)
		binary.BigEndian.PutUint16(b[at:], uint16(max(reported, least)))
	case 3:
		from := 20 // next header and the fields behind it
		if v4 {
			from = 34
		}
		if len(b) > from {
			b = slices.Concat(b[:from], m.garbage(b[from:]))
		}
	}
	if v4 {
		return wire.Checked(b)
	}
	return b
}

// knownLies returns lies that have worked once, and honest fragments.
func knownLies(w *world.World) (sequences [][]sent) {
	from := func(device int, frames ...wire.Frame) []sent {
		var list []sent
		for _, f := range frames {
			list = append(list, sent{device, f.Bytes()})
		}
		return list
	}
	question := world.FromA6(func(f *wire.Frame) { f.Dst = wire.IP("fd96::10") })
	// Its first fragment shows UDP to the service's port behind its end; the second
	// brings TCP to another.
	hidden := slices.Concat([]byte{60, 0, 1, 4, 0, 0, 0, 0}, []byte{17, 0, 1, 4, 0, 0, 0, 0}, wire.UDP{Sport: 1000, Dport: 53}.Bytes(0))
	first := sent{w.PodA, question.With(func(f *wire.Frame) {
		f.Fragment, f.L4 = &wire.Fragment{Offset: 0, More: true}, wire.Raw{Proto: 60, Data: hidden}
	}).Bytes()}
	binary.BigEndian.PutUint16(first.frame[18:], 16)
	second := slices.Concat([]byte{state.ProtoTCP, 0, 1, 4, 0, 0, 0, 0}, wire.TCP{Sport: 1000, Dport: 9153, Flags: wire.FlagSYN}.Bytes(0))
	rest := from(w.PodA, question.With(func(f *wire.Frame) {
		f.Fragment, f.L4 = &wire.Fragment{Offset: 1, More: false}, wire.Raw{Proto: 60, Data: second}
	}))
	sequences = append(sequences, append([]sent{first}, rest...))
	outwards := []wire.Frame{
		world.FromA(func(f *wire.Frame) { f.Dst = wire.IP(world.Outside) }),
		world.FromA6(func(f *wire.Frame) { f.Dst = wire.IP(world.Outside6) }),
	}
	for _, f := range outwards {
		a, b := world.DatagramIn(f, wire.UDP{Sport: 1000, Dport: wholePort}, 99)
		about := wire.Frame{Src: f.Dst, Dst: f.Src, L4: wire.UDP{Sport: wholePort, Dport: 1000, NoChecksum: true}}
		foreign := about.With(func(f *wire.Frame) { f.Dst = netip.MustParseAddr(world.ShadowOpen) })
		message := wire.ICMP{Type: 3, Code: 3}
		if f.Src.Is6() {
			message = wire.ICMP{V6: true, Type: 1, Code: 4}
			foreign.Dst = wire.IP(world.ShadowOpen6)
		}
		sequences = append(sequences, from(w.Open, a, b),
			from(w.Open, f.With(func(f *wire.Frame) { f.L4 = wire.Quoting(message, about) })),
			from(w.Main, world.FromA(func(g *wire.Frame) {
				g.Src, g.Dst = wire.IP("10.8.1.10"), f.Dst
				if f.Src.Is6() {
					g.Src = wire.IP("fd18:0:0:1::10")
				}
				g.L4 = wire.Quoting(message, foreign)
			})))
	}
	return sequences
}
