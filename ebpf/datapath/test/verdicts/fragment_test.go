// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/rules"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestFragment_LaterOneOutside_FollowsFirst(t *testing.T) {
	w := world.New(t)
	free, tunnel := wire.UDP{Sport: 1000, Dport: 2000}, wire.UDP{Sport: 1000, Dport: programs.DefaultTunnelPort}
	v4 := world.FromA(func(f *wire.Frame) { f.Dst = wire.IP(world.Outside) })
	v6 := world.FromA6(func(f *wire.Frame) { f.Dst = wire.IP(world.Outside6) })
	shadow, shadow6 := func(f *wire.Frame) { f.Src = wire.IP(world.ShadowOpen) }, func(f *wire.Frame) { f.Src = wire.IP(world.ShadowOpen6) }
	first, later := world.DatagramIn(v4, free, 1)
	first6, later6 := world.DatagramIn(v6, free, 1)
	forbidden, hidden := world.DatagramIn(v4, tunnel, 2)
	_, sameSlot := world.DatagramIn(v4, free, 1+64)
	_, elsewhere := world.DatagramIn(v4.With(func(f *wire.Frame) { f.Dst = wire.IP("198.51.100.2") }), free, 1)
	closed, closedToo := world.DatagramIn(v4, free, 1)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("one that comes before its first", w.Open, later.Bytes(), "egress_fragment"),
		toStack("the first", w.Open, first, shadow, state.MarkEgress),
		toStack("a later one", w.Open, later, shadow, state.MarkEgress),
		dropped(
			"one that is about the first's bytes",
			w.Open,
			later.With(func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 2, More: false} }).Bytes(),
			"egress_fragment",
		),
		dropped(
			"one about the last of the first's bytes over IPv6",
			w.Open,
			later6.With(func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 2, More: false} }).Bytes(),
			"egress_fragment",
		),
		toStack("a third", w.Open, later.With(func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 4, More: true} }), shadow, state.MarkEgress),
		dropped("one of another datagram to there", w.Open, sameSlot.Bytes(), "egress_fragment"),
		dropped("one of a datagram to another host", w.Open, elsewhere.Bytes(), "egress_fragment"),
		dropped("one of another protocol", w.Open, later.With(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 132, Data: make([]byte, 8)} }).Bytes(), "egress_fragment"),
		dropped("the first over IPv6 has not come", w.Open, later6.Bytes(), "egress_fragment"),
		toStack("the first over IPv6", w.Open, first6, shadow6, state.MarkEgress),
		toStack("a later one over IPv6", w.Open, later6, shadow6, state.MarkEgress),
		dropped("to the tunnel's port", w.Open, forbidden.Bytes(), "egress_tunnel_port"),
		dropped("the rest of it", w.Open, hidden.Bytes(), "egress_fragment"),
		dropped("the first of a VPC without egress", w.PodA, closed.Bytes(), "egress_closed"),
		dropped("the same datagram of another VPC's pod", w.PodA, closedToo.Bytes(), "egress_fragment"),
	})
}

func TestFragments_SharedService_GoAndComeBack(t *testing.T) {
	w := world.New(t)
	question, reply := wire.UDP{Sport: 1000, Dport: 53}, wire.UDP{Sport: 5353, Dport: 1000}
	first, later := world.DatagramIn(world.Ask(nil), question, 1)
	toBackend := func(f *wire.Frame) { f.Src, f.Dst = wire.IP(world.ShadowA), wire.IP("10.8.1.10") }
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("a question that comes before its first fragment", w.PodA, later.Bytes(), "egress_fragment"),
		toStack("the first fragment of a question", w.PodA, first, func(f *wire.Frame) {
			toBackend(f)
			f.L4 = wire.UDP{Sport: 1000, Dport: 5353, Payload: make([]byte, 16), NoChecksum: false}
		}, state.MarkShared),
		toStack("a later one", w.PodA, later, toBackend, state.MarkShared),
	})
	first, later = world.DatagramIn(world.Answer(world.ShadowA, nil), reply, 1)
	fromVIP := func(f *wire.Frame) { f.Src, f.Dst = wire.IP("10.96.0.10"), wire.IP("10.0.1.10") }
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		answered("the first fragment of the answer", w.PodA, first, func(f *wire.Frame) {
			fromVIP(f)
			f.L4 = wire.UDP{Sport: 53, Dport: 1000, Payload: make([]byte, 16), NoChecksum: false}
		}),
		answered("a later one", w.PodA, later, fromVIP),
		answered("one of a datagram that no service has sent", w.PodA, later.With(func(f *wire.Frame) { f.ID = 2 }),
			func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.10") }),
	})
}

func TestPacket_TooBigOverIPv6_TwoFragments(t *testing.T) {
	r := rules.New(t) // whose underlay carries 1350 bytes
	const first = 1296
	at := r.Places[world.KindFragment][0]
	made := func(dst string, size int) []byte {
		return long(dst, size, func(f *wire.Frame) { f.EthDst, f.EthSrc, f.Whole = world.MacR, world.ClassDirect, false })
	}
	identified := func(in []byte) []byte {
		source := world.IdentitySource(1<<24-1, world.Unjudged, world.ClassOfDirect)
		copy(in[6:], source[:])
		return in
	}
	clone := wire.Frame{
		EthDst: world.MacR, EthSrc: world.ClassDirect, Src: wire.IP("2001:db8::1"), Dst: wire.IP("2001:db8::2"),
		Fragment: &wire.Fragment{Offset: 0, More: true}, L4: wire.Raw{Proto: state.ProtoUDP, Data: make([]byte, 1400)},
	}.Bytes()
	for name, c := range map[string]struct {
		in     []byte
		mark   uint32
		length int // of the packet that comes out
	}{
		"IPv6":                          {made("fd10:0:0:1::20", 1281), world.VNIRed, 14 + rules.FragmentHeaders + first},
		"IPv4":                          {made("10.0.1.21", 1281), world.VNIRed, 14 + rules.FragmentHeaders + first},
		"IPv6 with an identity":         {identified(made("fd10:0:0:1::20", 1281)), world.VNIRed, 14 + rules.FragmentHeaders + first},
		"IPv4 with an identity":         {identified(made("10.0.1.21", 1281)), world.VNIRed, 14 + rules.FragmentHeaders + first},
		"as much as two fragments have": {made("10.0.1.21", 2*first-30), world.VNIRed, 14 + rules.FragmentHeaders + first},
		"what fits":                     {made("10.0.1.21", 1280), world.VNIRed, 14 + 1280},
		"the clone of an outer packet":  {clone, rules.MarkSecond | first, 14 + rules.FragmentHeaders + 1400 - first},
	} {
		t.Run(name, func(t *testing.T) {
			bpftest.Enter(t, r.W.NS)
			before := bpftest.Counts(t, r.W.Datapath)
			_, out, end := world.RunContext(t, at.Program, c.in, bpf.Context{Ifindex: uint32(at.Device), Mark: c.mark})
			if d := cmp.Diff(world.One("to_tunnel/forwarded_remote"), bpftest.Added(before, bpftest.Counts(t, r.W.Datapath))); d != "" {
				t.Errorf("counters (-want +got):\n%s", d)
			}
			if err := r.Fragment(at, c.in, out, c.mark, end.Mark); err != nil || len(out) != c.length {
				t.Errorf("%v; %d bytes, want %d", err, len(out), c.length)
			}
		})
	}
	bpftest.Enter(t, r.W.NS)
	for name, c := range map[string]struct {
		in     []byte
		mark   uint32
		reason string
	}{
		"more than two fragments have":   {made("10.0.1.21", 2*first-29), world.VNIRed, "too_big"},
		"to an address that has gone":    {made("10.0.1.22", 1281), world.VNIRed, "no_endpoint"},
		"of a VPC that has gone":         {made("10.0.1.21", 1281), 999, "no_endpoint"},
		"a clone with nothing left over": {clone, rules.MarkSecond | 1400, "bad_header"},
	} {
		before := bpftest.Counts(t, r.W.Datapath)
		verdict, _, _ := world.RunMarked(t, at.Program, at.Device, c.in, c.mark)
		if d := cmp.Diff(world.One("to_tunnel/"+c.reason), bpftest.Added(before, bpftest.Counts(t, r.W.Datapath))); d != "" || verdict != world.ActShot {
			t.Errorf("%s: verdict %d, counters (-want +got):\n%s", name, verdict, d)
		}
	}
}
