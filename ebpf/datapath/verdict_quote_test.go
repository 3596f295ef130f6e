// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// refusedBy is the error that a closed port causes.
func refusedBy(about frame) icmp {
	if about.Src.Is6() {
		return quoting(icmp{V6: true, Type: 1, Code: 4}, about)
	}
	return quoting(icmp{Type: 3, Code: 3}, about)
}

// quotedFrom is a datagram to pod A, which the pod has an error about.
func quotedFrom(src, dst string, mutate func(*frame)) frame {
	f := frame{Src: Ip(src), Dst: Ip(dst), L4: udp{Sport: 53, Dport: 1000, NoChecksum: true}}
	mutate(&f)
	return f
}

func TestAnErrorLeavesAVPCAboutThePodsOwnFlowsOnly(t *testing.T) {
	w := newWorld(t)
	const own, own6 = "10.0.1.10", "fd10:0:0:1::10"
	says := func(dst string, about frame) frame {
		f := fromA(func(f *frame) { f.Dst, f.L4 = Ip(dst), refusedBy(about) })
		if about.Src.Is6() {
			f = fromA6(func(f *frame) { f.Dst, f.L4 = Ip(dst), refusedBy(about) })
		}
		return f
	}
	passes := func(name string, src, dst, shadow string, mutate func(*frame)) verdictCase {
		return toStack(name, w.open, says(src, quotedFrom(src, dst, mutate)), func(f *frame) {
			f.Src, f.L4 = Ip(shadow), refusedBy(quotedFrom(src, shadow, mutate))
		}, state.MarkEgress)
	}
	refused := func(name string, dst string, about frame) verdictCase {
		return dropped(name, w.open, says(dst, about).bytes(), "icmp_unrelated")
	}
	l4 := func(t transport) func(*frame) { return func(f *frame) { f.L4 = t } }
	extended := func(e ...extension) func(*frame) { return func(f *frame) { f.Extensions = e } }
	cut := func(f frame, size int) []byte {
		b := f.bytes()
		b = b[:len(b)-size]
		if f.Src.Is6() {
			binary.BigEndian.PutUint16(b[18:], uint16(len(b)-54))
			return b
		}
		binary.BigEndian.PutUint16(b[16:], uint16(len(b)-14))
		return checked(b)
	}
	echo := icmp{Type: 8, Body: []byte{0, 7, 0, 1}}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		passes("about UDP", outside, own, shadowOpen, unchanged),
		passes("about UDP over IPv6", outside6, own6, shadowOpen6, unchanged),
		passes("about TCP", outside, own, shadowOpen, l4(raw{state.ProtoTCP, make([]byte, 20)})),
		passes("about SCTP", outside, own, shadowOpen, l4(raw{132, make([]byte, 8)})),
		passes("about an echo", outside, own, shadowOpen, l4(echo)),
		passes("about a packet with options", outside, own, shadowOpen, func(f *frame) { f.Options = []byte{1, 1, 1, 0} }),
		passes("about a first fragment", outside, own, shadowOpen, func(f *frame) { f.Fragment = &fragment{0, true} }),
		passes("about a packet with extension headers", outside6, own6, shadowOpen6, extended(extension{60, make([]byte, 14)}, extension{0, make([]byte, 6)})),
		passes("about a first fragment over IPv6", outside6, own6, shadowOpen6, func(f *frame) { f.Fragment = &fragment{0, true} }),

		refused("about another pod's shadow", outside, quotedFrom(outside, shadowA, unchanged)),
		refused("about the pod's own shadow, which it does not know", outside, quotedFrom(outside, shadowOpen, unchanged)),
		refused("about another pod's shadow over IPv6", outside6, quotedFrom(outside6, ShadowA6, unchanged)),
		refused("about a node's packet", outside, quotedFrom(outside, "192.0.2.1", unchanged)),
		refused("for somebody who did not send it", outside, quotedFrom("198.51.100.2", own, unchanged)),
		refused("about a packet of its own", outside, quotedFrom(own, outside, unchanged)),
		refused("about a later fragment", outside, quotedFrom(outside, own, func(f *frame) { f.Fragment = &fragment{1, true} })),
		refused("about a later fragment over IPv6", outside6, quotedFrom(outside6, own6, func(f *frame) { f.Fragment = &fragment{1, true} })),
		refused("about another protocol", outside, quotedFrom(outside, own, l4(raw{47, make([]byte, 16)}))),
		refused("about an echo without its id", outside, quotedFrom(outside, own, l4(raw{1, make([]byte, 7)}))),
		refused("about headers without an end", outside6, quotedFrom(outside6, own6, l4(raw{60, []byte{60, 0, 1, 4, 0, 0, 0, 0}}))),
		dropped("with half of the ports", w.open, cut(says(outside, quotedFrom(outside, own, unchanged)), 5), "icmp_unrelated"),
		dropped("with half of the ports over IPv6", w.open, cut(says(outside6, quotedFrom(outside6, own6, unchanged)), 5), "icmp_unrelated"),
		dropped("with ports that are behind the packet's end", w.open,
			append(cut(says(outside, quotedFrom(outside, own, unchanged)), 5), 3, 232, 0, 8, 0), "icmp_unrelated"),
		dropped("with half of a header", w.open, cut(says(outside, quotedFrom(outside, own, unchanged)), 18), "icmp_unrelated"),
	})
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("to the node, about another pod", w.podA,
			fromA(func(f *frame) {
				f.Dst, f.L4 = Ip(nodeShadow), refusedBy(quotedFrom(nodeShadow, "169.254.64.11", unchanged))
			}).bytes(), "icmp_unrelated"),
		dropped("to who has reached another pod from outside", w.twin,
			fromA(func(f *frame) { f.Dst, f.L4 = Ip(outside), refusedBy(quotedFrom(outside, shadowA, unchanged)) }).bytes(), "icmp_unrelated"),
		dropped("inside of the VPC, about a third pod's packet", w.podA,
			fromA(func(f *frame) { f.L4 = refusedBy(quotedFrom("10.0.1.11", "10.0.1.20", unchanged)) }).bytes(), "icmp_unrelated"),
		dropped("to another node, about a third pod's packet", w.podA,
			fromA(func(f *frame) {
				f.Dst, f.L4 = Ip("10.0.1.20"), refusedBy(quotedFrom("10.0.1.20", "10.0.1.11", unchanged))
			}).bytes(), "icmp_unrelated"),
		dropped("a fragment that keeps its type for the next", w.podA, fromA6(func(f *frame) {
			f.Fragment, f.L4 = &fragment{0, true}, raw{60, []byte{58, 0, 1, 4, 0, 0, 0, 0}}
		}).bytes(), "bad_header"),
	})
}

func TestAnErrorAboutASharedServicesAnswerFindsTheBackend(t *testing.T) {
	w := newWorld(t)
	answer := func(src, dst string, sport uint16) frame {
		return frame{Src: Ip(src), Dst: Ip(dst), L4: udp{Sport: sport, Dport: 1000, NoChecksum: true}}
	}
	to := func(about frame) frame { return ask(refusedBy(about)) }
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("before the question", w.podA, to(answer("10.96.0.10", "10.0.1.10", 53)).bytes(), "no_connection"),
		toStack("the question", w.podA, ask(udp{Sport: 1000, Dport: 53}), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadowA), Ip("10.8.1.10"), udp{Sport: 1000, Dport: 5353}
		}, state.MarkShared),
		toStack("about its answer", w.podA, to(answer("10.96.0.10", "10.0.1.10", 53)), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadowA), Ip("10.8.1.10"), refusedBy(answer("10.8.1.10", shadowA, 5353))
		}, state.MarkShared),
		dropped("about an answer from another port", w.podA, to(answer("10.96.0.10", "10.0.1.10", 54)).bytes(), "no_connection"),
		dropped("about an answer to another pod", w.podA, to(answer("10.96.0.10", "10.0.1.11", 53)).bytes(), "icmp_unrelated"),
		dropped("about an answer of the backend's", w.podA, to(answer("10.8.1.10", "10.0.1.10", 5353)).bytes(), "icmp_unrelated"),
	})
}
