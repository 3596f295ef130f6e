// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"encoding/binary"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// refusedBy returns the error that a closed port causes.
func refusedBy(about wire.Frame) wire.ICMP {
	if about.Src.Is6() {
		return wire.Quoting(wire.ICMP{V6: true, Type: 1, Code: 4}, about)
	}
	return wire.Quoting(wire.ICMP{Type: 3, Code: 3}, about)
}

// quotedFrom returns a datagram to pod A, which the pod has an error about.
func quotedFrom(src, dst string, mutate func(*wire.Frame)) wire.Frame {
	f := wire.Frame{Src: wire.IP(src), Dst: wire.IP(dst), L4: wire.UDP{Sport: 53, Dport: 1000, NoChecksum: true}}
	mutate(&f)
	return f
}

func TestICMPError_LeavingVPC_OnlyAboutOwnFlows(t *testing.T) {
	w := world.New(t)
	const own, own6 = "10.0.1.10", "fd10:0:0:1::10"
	says := func(dst string, about wire.Frame) wire.Frame {
		f := world.FromA(func(f *wire.Frame) { f.Dst, f.L4 = wire.IP(dst), refusedBy(about) })
		if about.Src.Is6() {
			f = world.FromA6(func(f *wire.Frame) { f.Dst, f.L4 = wire.IP(dst), refusedBy(about) })
		}
		return f
	}
	passes := func(name string, src, dst, shadow string, mutate func(*wire.Frame)) world.Case {
		return toStack(name, w.Open, says(src, quotedFrom(src, dst, mutate)), func(f *wire.Frame) {
			f.Src, f.L4 = wire.IP(shadow), refusedBy(quotedFrom(src, shadow, mutate))
		}, state.MarkEgress)
	}
	refused := func(name string, dst string, about wire.Frame) world.Case {
		return dropped(name, w.Open, says(dst, about).Bytes(), "icmp_unrelated")
	}
	l4 := func(t wire.Transport) func(*wire.Frame) { return func(f *wire.Frame) { f.L4 = t } }
	extended := func(e ...wire.Extension) func(*wire.Frame) { return func(f *wire.Frame) { f.Extensions = e } }
	cut := func(f wire.Frame, size int) []byte {
		b := f.Bytes()
		b = b[:len(b)-size]
		if f.Src.Is6() {
			binary.BigEndian.PutUint16(b[18:], uint16(len(b)-54))
			return b
		}
		binary.BigEndian.PutUint16(b[16:], uint16(len(b)-14))
		return wire.Checked(b)
	}
	echo := wire.ICMP{Type: 8, Body: []byte{0, 7, 0, 1}}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		passes("about UDP", world.Outside, own, world.ShadowOpen, world.Unchanged),
		passes("about UDP over IPv6", world.Outside6, own6, world.ShadowOpen6, world.Unchanged),
		passes("about TCP", world.Outside, own, world.ShadowOpen, l4(wire.Raw{Proto: state.ProtoTCP, Data: make([]byte, 20)})),
		passes("about SCTP", world.Outside, own, world.ShadowOpen, l4(wire.Raw{Proto: 132, Data: make([]byte, 8)})),
		passes("about an echo", world.Outside, own, world.ShadowOpen, l4(echo)),
		passes("about a packet with options", world.Outside, own, world.ShadowOpen, func(f *wire.Frame) { f.Options = []byte{1, 1, 1, 0} }),
		passes("about a first fragment", world.Outside, own, world.ShadowOpen, func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} }),
		passes(
			"about a packet with extension headers",
			world.Outside6,
			own6,
			world.ShadowOpen6,
			extended(wire.Extension{Type: 60, Body: make([]byte, 14)}, wire.Extension{Type: 0, Body: make([]byte, 6)}),
		),
		passes(
			"about a first fragment over IPv6",
			world.Outside6,
			own6,
			world.ShadowOpen6,
			func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} },
		),

		refused("about another pod's shadow", world.Outside, quotedFrom(world.Outside, world.ShadowA, world.Unchanged)),
		refused("about the pod's own shadow, which it does not know", world.Outside, quotedFrom(world.Outside, world.ShadowOpen, world.Unchanged)),
		refused("about another pod's shadow over IPv6", world.Outside6, quotedFrom(world.Outside6, world.ShadowA6, world.Unchanged)),
		refused("about a node's packet", world.Outside, quotedFrom(world.Outside, "192.0.2.1", world.Unchanged)),
		refused("for somebody who did not send it", world.Outside, quotedFrom("198.51.100.2", own, world.Unchanged)),
		refused("about a packet of its own", world.Outside, quotedFrom(own, world.Outside, world.Unchanged)),
		refused("about a later fragment", world.Outside, quotedFrom(world.Outside, own, func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 1, More: true} })),
		refused(
			"about a later fragment over IPv6",
			world.Outside6,
			quotedFrom(world.Outside6, own6, func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 1, More: true} }),
		),
		refused("about another protocol", world.Outside, quotedFrom(world.Outside, own, l4(wire.Raw{Proto: 47, Data: make([]byte, 16)}))),
		refused("about an echo without its id", world.Outside, quotedFrom(world.Outside, own, l4(wire.Raw{Proto: 1, Data: make([]byte, 7)}))),
		refused("about headers without an end", world.Outside6, quotedFrom(world.Outside6, own6, l4(wire.Raw{Proto: 60, Data: []byte{60, 0, 1, 4, 0, 0, 0, 0}}))),
		dropped("with half of the ports", w.Open, cut(says(world.Outside, quotedFrom(world.Outside, own, world.Unchanged)), 5), "icmp_unrelated"),
		dropped("with half of the ports over IPv6", w.Open, cut(says(world.Outside6, quotedFrom(world.Outside6, own6, world.Unchanged)), 5), "icmp_unrelated"),
		dropped("with ports that are behind the packet's end", w.Open,
			append(cut(says(world.Outside, quotedFrom(world.Outside, own, world.Unchanged)), 5), 3, 232, 0, 8, 0), "icmp_unrelated"),
		dropped("with half of a header", w.Open, cut(says(world.Outside, quotedFrom(world.Outside, own, world.Unchanged)), 18), "icmp_unrelated"),
	})
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("to the node, about another pod", w.PodA,
			world.FromA(func(f *wire.Frame) {
				f.Dst, f.L4 = wire.IP(world.NodeShadow), refusedBy(quotedFrom(world.NodeShadow, "169.254.64.11", world.Unchanged))
			}).Bytes(), "icmp_unrelated"),
		dropped("to who has reached another pod from outside", w.Twin,
			world.FromA(func(f *wire.Frame) {
				f.Dst, f.L4 = wire.IP(world.Outside), refusedBy(quotedFrom(world.Outside, world.ShadowA, world.Unchanged))
			}).Bytes(), "icmp_unrelated"),
		dropped("inside of the VPC, about a third pod's packet", w.PodA,
			world.FromA(func(f *wire.Frame) { f.L4 = refusedBy(quotedFrom("10.0.1.11", "10.0.1.20", world.Unchanged)) }).Bytes(), "icmp_unrelated"),
		dropped("to another node, about a third pod's packet", w.PodA,
			world.FromA(func(f *wire.Frame) {
				f.Dst, f.L4 = wire.IP("10.0.1.20"), refusedBy(quotedFrom("10.0.1.20", "10.0.1.11", world.Unchanged))
			}).Bytes(), "icmp_unrelated"),
		dropped("a fragment that keeps its type for the next", w.PodA, world.FromA6(func(f *wire.Frame) {
			f.Fragment, f.L4 = &wire.Fragment{Offset: 0, More: true}, wire.Raw{Proto: 60, Data: []byte{58, 0, 1, 4, 0, 0, 0, 0}}
		}).Bytes(), "bad_header"),
	})
}

func TestICMPError_SharedServiceAnswer_ReachesBackend(t *testing.T) {
	w := world.New(t)
	answer := func(src, dst string, sport uint16) wire.Frame {
		return wire.Frame{Src: wire.IP(src), Dst: wire.IP(dst), L4: wire.UDP{Sport: sport, Dport: 1000, NoChecksum: true}}
	}
	to := func(about wire.Frame) wire.Frame { return world.Ask(refusedBy(about)) }
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("before the question", w.PodA, to(answer("10.96.0.10", "10.0.1.10", 53)).Bytes(), "no_connection"),
		toStack("the question", w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), wire.UDP{Sport: 1000, Dport: 5353}
		}, state.MarkShared),
		toStack("about its answer", w.PodA, to(answer("10.96.0.10", "10.0.1.10", 53)), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), refusedBy(answer("10.8.1.10", world.ShadowA, 5353))
		}, state.MarkShared),
		dropped("about an answer from another port", w.PodA, to(answer("10.96.0.10", "10.0.1.10", 54)).Bytes(), "no_connection"),
		dropped("about an answer to another pod", w.PodA, to(answer("10.96.0.10", "10.0.1.11", 53)).Bytes(), "icmp_unrelated"),
		dropped("about an answer of the backend's", w.PodA, to(answer("10.8.1.10", "10.0.1.10", 5353)).Bytes(), "icmp_unrelated"),
	})
}
