// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// DatagramIn returns two fragments of a datagram.
func DatagramIn(f wire.Frame, l4 wire.UDP, id uint16) (first, later wire.Frame) {
	l4.Payload = make([]byte, 16)
	first = f.With(func(f *wire.Frame) { f.ID, f.Fragment, f.L4 = id, &wire.Fragment{Offset: 0, More: true}, l4 })
	later = f.With(func(f *wire.Frame) {
		f.ID, f.Fragment, f.L4 = id, &wire.Fragment{
			Offset: 3,
			More:   false,
		}, wire.Raw{
			Proto: state.ProtoUDP,
			Data:  []byte("the rest"),
		}
	})
	return first, later
}

// Asks returns a packet of pod A, or of its twin, to a virtual address.
func Asks(vip string, l4 wire.Transport) wire.Frame {
	base := FromA
	if wire.IP(vip).Is6() {
		base = FromA6
	}
	return base(func(f *wire.Frame) { f.Dst, f.L4 = wire.IP(vip), l4 })
}

// Says returns a packet of pod B to pod A.
func Says(l4 wire.Transport) wire.Frame {
	return wire.Frame{EthDst: state.VirtualMAC, EthSrc: MacB, Src: wire.IP("10.0.1.11"), Dst: wire.IP("10.0.1.10"), L4: l4}
}

// Ask returns a packet of pod A, or of its twin in another VPC, to a service.
func Ask(l4 wire.Transport) wire.Frame {
	return FromA(func(f *wire.Frame) { f.Dst, f.L4 = wire.IP("10.96.0.10"), l4 }) // cluster DNS
}

// Answer returns a packet that the host's stack passes back to a shadow.
func Answer(shadow string, l4 wire.Transport) wire.Frame {
	return wire.Frame{EthDst: MacA, EthSrc: state.VirtualMAC, Src: wire.IP("10.8.1.10"), Dst: wire.IP(shadow), L4: l4}
}

// FromA returns an ordinary IPv4 packet of pod A.
func FromA(mutate func(*wire.Frame)) wire.Frame {
	f := wire.Frame{
		EthDst: state.VirtualMAC, EthSrc: MacA, Src: wire.IP("10.0.1.10"), Dst: wire.IP("10.0.1.11"),
		L4: wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN, Payload: []byte("payload")},
	}
	mutate(&f)
	return f
}

// FromA6 returns an ordinary IPv6 packet of pod A.
func FromA6(mutate func(*wire.Frame)) wire.Frame {
	return FromA(func(f *wire.Frame) {
		f.Src, f.Dst = wire.IP("fd10:0:0:1::10"), wire.IP("fd10:0:0:1::11")
		mutate(f)
	})
}

// Unchanged leaves the frame as it is.
func Unchanged(*wire.Frame) {}
