// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// datagramIn returns two fragments of a datagram.
func datagramIn(f frame, l4 udp, id uint16) (first, later frame) {
	l4.Payload = make([]byte, 16)
	first = f.with(func(f *frame) { f.ID, f.Fragment, f.L4 = id, &fragment{0, true}, l4 })
	later = f.with(func(f *frame) {
		f.ID, f.Fragment, f.L4 = id, &fragment{3, false}, raw{state.ProtoUDP, []byte("the rest")}
	})
	return first, later
}

func TestALaterFragmentFollowsTheFirstThroughTheDoor(t *testing.T) {
	w := newWorld(t)
	free, tunnel := udp{Sport: 1000, Dport: 2000}, udp{Sport: 1000, Dport: programs.DefaultTunnelPort}
	v4 := fromA(func(f *frame) { f.Dst = Ip(outside) })
	v6 := fromA6(func(f *frame) { f.Dst = Ip(outside6) })
	shadow, shadow6 := func(f *frame) { f.Src = Ip(shadowOpen) }, func(f *frame) { f.Src = Ip(shadowOpen6) }
	first, later := datagramIn(v4, free, 1)
	first6, later6 := datagramIn(v6, free, 1)
	forbidden, hidden := datagramIn(v4, tunnel, 2)
	_, sameSlot := datagramIn(v4, free, 1+64)
	_, elsewhere := datagramIn(v4.with(func(f *frame) { f.Dst = Ip("198.51.100.2") }), free, 1)
	closed, closedToo := datagramIn(v4, free, 1)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("one that comes before its first", w.open, later.bytes(), "egress_fragment"),
		toStack("the first", w.open, first, shadow, state.MarkEgress),
		toStack("a later one", w.open, later, shadow, state.MarkEgress),
		dropped("one that is about the first's bytes", w.open, later.with(func(f *frame) { f.Fragment = &fragment{2, false} }).bytes(), "egress_fragment"),
		dropped("one about the last of the first's bytes over IPv6", w.open, later6.with(func(f *frame) { f.Fragment = &fragment{2, false} }).bytes(), "egress_fragment"),
		toStack("a third", w.open, later.with(func(f *frame) { f.Fragment = &fragment{4, true} }), shadow, state.MarkEgress),
		dropped("one of another datagram to there", w.open, sameSlot.bytes(), "egress_fragment"),
		dropped("one of a datagram to another host", w.open, elsewhere.bytes(), "egress_fragment"),
		dropped("one of another protocol", w.open, later.with(func(f *frame) { f.L4 = raw{132, make([]byte, 8)} }).bytes(), "egress_fragment"),
		dropped("the first over IPv6 has not come", w.open, later6.bytes(), "egress_fragment"),
		toStack("the first over IPv6", w.open, first6, shadow6, state.MarkEgress),
		toStack("a later one over IPv6", w.open, later6, shadow6, state.MarkEgress),
		dropped("to the tunnel's port", w.open, forbidden.bytes(), "egress_tunnel_port"),
		dropped("the rest of it", w.open, hidden.bytes(), "egress_fragment"),
		dropped("the first of a VPC without egress", w.podA, closed.bytes(), "egress_closed"),
		dropped("the same datagram of another VPC's pod", w.podA, closedToo.bytes(), "egress_fragment"),
	})
}

func TestFragmentsGoToAServiceAndBack(t *testing.T) {
	w := newWorld(t)
	question, reply := udp{Sport: 1000, Dport: 53}, udp{Sport: 5353, Dport: 1000}
	first, later := datagramIn(ask(nil), question, 1)
	toBackend := func(f *frame) { f.Src, f.Dst = Ip(shadowA), Ip("10.8.1.10") }
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("a question that comes before its first fragment", w.podA, later.bytes(), "egress_fragment"),
		toStack("the first fragment of a question", w.podA, first, func(f *frame) {
			toBackend(f)
			f.L4 = udp{1000, 5353, make([]byte, 16), false}
		}, state.MarkShared),
		toStack("a later one", w.podA, later, toBackend, state.MarkShared),
	})
	first, later = datagramIn(answer(shadowA, nil), reply, 1)
	fromVIP := func(f *frame) { f.Src, f.Dst = Ip("10.96.0.10"), Ip("10.0.1.10") }
	w.check(t, w.objects.AliothToPod, []verdictCase{
		answered("the first fragment of the answer", w.podA, first, func(f *frame) {
			fromVIP(f)
			f.L4 = udp{53, 1000, make([]byte, 16), false}
		}),
		answered("a later one", w.podA, later, fromVIP),
		answered("one of a datagram that no service has sent", w.podA, later.with(func(f *frame) { f.ID = 2 }),
			func(f *frame) { f.Dst = Ip("10.0.1.10") }),
	})
}

func TestWhatDoesNotFitOverIPv6IsMadeTwoFragments(t *testing.T) {
	r := newRules(t) // whose underlay carries 1350 bytes
	const first = 1296
	at := r.places[kindFragment][0]
	made := func(dst string, size int) []byte {
		return long(dst, size, func(f *frame) { f.EthDst, f.Whole = macR, false })
	}
	clone := frame{
		EthDst: macR, EthSrc: MacA, Src: Ip("2001:db8::1"), Dst: Ip("2001:db8::2"),
		Fragment: &fragment{0, true}, L4: raw{state.ProtoUDP, make([]byte, 1400)},
	}.bytes()
	for name, c := range map[string]struct {
		in     []byte
		mark   uint32
		length int // of what comes out
	}{
		"IPv6":                          {made("fd10:0:0:1::20", 1281), vniRed, 14 + fragmentHeaders + first},
		"IPv4":                          {made("10.0.1.21", 1281), vniRed, 14 + fragmentHeaders + first},
		"as much as two fragments have": {made("10.0.1.21", 2*first-30), vniRed, 14 + fragmentHeaders + first},
		"what fits":                     {made("10.0.1.21", 1280), vniRed, 14 + 1280},
		"the clone of an outer packet":  {clone, markSecond | first, 14 + fragmentHeaders + 1400 - first},
	} {
		t.Run(name, func(t *testing.T) {
			enter(t, r.w.ns)
			before := counts(t, r.w.opened)
			_, out, end := runContext(t, at.program, c.in, bpf.Context{Ifindex: uint32(at.device), Mark: c.mark})
			if d := cmp.Diff(one("to_tunnel/forwarded_remote"), added(before, counts(t, r.w.opened))); d != "" {
				t.Errorf("counters (-want +got):\n%s", d)
			}
			if err := r.fragment(at, c.in, out, c.mark, end.Mark); err != nil || len(out) != c.length {
				t.Errorf("%v; %d bytes, want %d", err, len(out), c.length)
			}
		})
	}
	enter(t, r.w.ns)
	for name, c := range map[string]struct {
		in     []byte
		mark   uint32
		reason string
	}{
		"more than two fragments have":   {made("10.0.1.21", 2*first-29), vniRed, "too_big"},
		"to an address that has gone":    {made("10.0.1.22", 1281), vniRed, "no_endpoint"},
		"of a VPC that has gone":         {made("10.0.1.21", 1281), 999, "no_endpoint"},
		"a clone with nothing left over": {clone, markSecond | 1400, "bad_header"},
	} {
		before := counts(t, r.w.opened)
		verdict, _, _ := runMarked(t, at.program, at.device, c.in, c.mark)
		if d := cmp.Diff(one("to_tunnel/"+c.reason), added(before, counts(t, r.w.opened))); d != "" || verdict != actShot {
			t.Errorf("%s: verdict %d, counters (-want +got):\n%s", name, verdict, d)
		}
	}
}
