// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import "testing"

// datagramIn returns two fragments of a datagram.
func datagramIn(f frame, l4 udp, id uint16) (first, later frame) {
	l4.Payload = make([]byte, 16)
	first = f.with(func(f *frame) { f.ID, f.Fragment, f.L4 = id, &fragment{0, true}, l4 })
	later = f.with(func(f *frame) { f.ID, f.Fragment, f.L4 = id, &fragment{3, false}, raw{protoUDP, []byte("the rest")} })
	return first, later
}

func TestALaterFragmentFollowsTheFirstThroughTheDoor(t *testing.T) {
	w := newWorld(t)
	free, tunnel := udp{Sport: 1000, Dport: 2000}, udp{Sport: 1000, Dport: DefaultTunnelPort}
	v4 := fromA(func(f *frame) { f.Dst = ip(outside) })
	v6 := fromA6(func(f *frame) { f.Dst = ip(outside6) })
	shadow, shadow6 := func(f *frame) { f.Src = ip(shadowOpen) }, func(f *frame) { f.Src = ip(shadowOpen6) }
	first, later := datagramIn(v4, free, 1)
	first6, later6 := datagramIn(v6, free, 1)
	forbidden, hidden := datagramIn(v4, tunnel, 2)
	_, sameSlot := datagramIn(v4, free, 1+64)
	_, elsewhere := datagramIn(v4.with(func(f *frame) { f.Dst = ip("198.51.100.2") }), free, 1)
	closed, closedToo := datagramIn(v4, free, 1)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("one that comes before its first", w.open, later.bytes(), "door_fragment"),
		toStack("the first", w.open, first, shadow, MarkEgress),
		toStack("a later one", w.open, later, shadow, MarkEgress),
		toStack("a third", w.open, later.with(func(f *frame) { f.Fragment = &fragment{4, true} }), shadow, MarkEgress),
		dropped("one of another datagram to there", w.open, sameSlot.bytes(), "door_fragment"),
		dropped("one of a datagram to another host", w.open, elsewhere.bytes(), "door_fragment"),
		dropped("one of another protocol", w.open, later.with(func(f *frame) { f.L4 = raw{132, make([]byte, 8)} }).bytes(), "door_fragment"),
		dropped("the first over IPv6 has not come", w.open, later6.bytes(), "door_fragment"),
		toStack("the first over IPv6", w.open, first6, shadow6, MarkEgress),
		toStack("a later one over IPv6", w.open, later6, shadow6, MarkEgress),
		dropped("to the tunnel's port", w.open, forbidden.bytes(), "egress_tunnel_port"),
		dropped("the rest of it", w.open, hidden.bytes(), "door_fragment"),
		dropped("the first of a VPC without egress", w.podA, closed.bytes(), "egress_closed"),
		dropped("the same datagram of another VPC's pod", w.podA, closedToo.bytes(), "door_fragment"),
	})
}

func TestFragmentsGoToAServiceAndBack(t *testing.T) {
	w := newWorld(t)
	question, reply := udp{Sport: 1000, Dport: 53}, udp{Sport: 5353, Dport: 1000}
	first, later := datagramIn(ask(nil), question, 1)
	toBackend := func(f *frame) { f.Src, f.Dst = ip(shadowA), ip("10.8.1.10") }
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("a question that comes before its first fragment", w.podA, later.bytes(), "door_fragment"),
		toStack("the first fragment of a question", w.podA, first, func(f *frame) {
			toBackend(f)
			f.L4 = udp{1000, 5353, make([]byte, 16), false}
		}, MarkShared),
		toStack("a later one", w.podA, later, toBackend, MarkShared),
	})
	first, later = datagramIn(answer(shadowA, nil), reply, 1)
	fromVIP := func(f *frame) { f.Src, f.Dst = ip("10.96.0.10"), ip("10.0.1.10") }
	w.check(t, w.objects.AliothToPod, []verdictCase{
		answered("the first fragment of the answer", w.podA, first, func(f *frame) {
			fromVIP(f)
			f.L4 = udp{53, 1000, make([]byte, 16), false}
		}),
		answered("a later one", w.podA, later, fromVIP),
		answered("one of a datagram that no service has sent", w.podA, later.with(func(f *frame) { f.ID = 2 }),
			func(f *frame) { f.Dst = ip("10.0.1.10") }),
	})
}
