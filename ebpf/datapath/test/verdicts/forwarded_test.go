// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestPacket_InsideVPC_Forwarded(t *testing.T) {
	w := world.New(t)
	delivered := func(f *wire.Frame) { f.EthDst, f.EthSrc = world.MacB, state.VirtualMAC }
	tunnelled := func(f *wire.Frame) { f.EthDst, f.EthSrc = world.MacR, world.ClassDirect }
	var cases []world.Case
	add := func(name string, f wire.Frame, out func(*wire.Frame), reason string) {
		cases = append(cases, world.Case{
			Name: name, Device: w.PodA, In: f.Bytes(), Out: f.With(out).Bytes(),
			Verdict: world.ActRedirect, Counts: world.One("from_pod/" + reason),
		})
	}
	local, remote := "forwarded_local", "forwarded_remote"
	add("IPv4 to a pod of this node", world.FromA(world.Unchanged), delivered, local)
	add("IPv6 to a pod of this node", world.FromA6(world.Unchanged), delivered, local)
	add("IPv4 to a pod of another node", world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.20") }), tunnelled, remote)
	add("IPv6 to a pod of another node", world.FromA6(func(f *wire.Frame) { f.Dst = wire.IP("fd10:0:0:1::20") }), tunnelled, remote)
	add("a first IPv4 fragment", world.FromA(func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} }), delivered, local)
	add("a later IPv4 fragment", world.FromA(func(f *wire.Frame) {
		f.Fragment, f.L4 = &wire.Fragment{Offset: 185, More: false}, wire.Raw{Proto: state.ProtoUDP, Data: []byte("the rest")}
	}), delivered, local)
	add("a later IPv6 fragment", world.FromA6(func(f *wire.Frame) {
		f.Fragment, f.L4 = &wire.Fragment{Offset: 185, More: false}, wire.Raw{Proto: state.ProtoUDP, Data: []byte("the rest")}
	}), delivered, local)
	add("IPv4 with options", world.FromA(func(f *wire.Frame) { f.Options = []byte{1, 1, 1, 0} }), delivered, local)
	add("IPv6 with extension headers", world.FromA6(func(f *wire.Frame) {
		f.Extensions = []wire.Extension{{Type: 0, Body: make([]byte, 6)}, {Type: 60, Body: make([]byte, 14)}, {Type: 51, Body: make([]byte, 22)}}
	}), delivered, local)
	add("an IPv4 ICMP error", world.FromA(func(f *wire.Frame) {
		f.L4 = wire.Quoting(wire.ICMP{Type: 3, Code: 4}, wire.Frame{Src: f.Dst, Dst: f.Src, L4: wire.UDP{Sport: 1, Dport: 2}})
	}), delivered, local)
	add("an ICMPv6 error", world.FromA6(func(f *wire.Frame) {
		f.L4 = wire.Quoting(wire.ICMP{V6: true, Type: 2}, wire.Frame{Src: f.Dst, Dst: f.Src, L4: wire.UDP{Sport: 1, Dport: 2}})
	}), delivered, local)
	add("a protocol that nobody knows", world.FromA(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 253, Data: []byte("experiment")} }), delivered, local)
	add("to a stale Ethernet address", world.FromA(func(f *wire.Frame) { f.EthDst = world.MacR }), delivered, local)
	w.Expect(t, w.Objects.AliothFromPod, cases)
}
