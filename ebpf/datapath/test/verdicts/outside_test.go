// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// lead makes services of VPCs lead outside, beside services that all VPCs share.
func lead(t *testing.T, w *world.World, services ...state.Service) {
	t.Helper()
	s := w.State()
	s.Services = append(s.Services, services...)
	bpftest.Must(t, w.Apply(s))
}

func newLeadingWorld(t *testing.T) *world.World {
	t.Helper()
	w := world.New(t, func(c *programs.Config) { c.ConnectionsPerInterface = 1000 })
	lead(t, w, world.Leading(world.VNIOpen, world.Outside, world.Outside6)...)
	return w
}

// leaves returns the change of a packet of the open VPC that goes outside by a service, and
// comesBack the change of a packet that answers it.
func leaves(l4 wire.Transport) func(*wire.Frame) {
	return func(f *wire.Frame) {
		src, dst := world.ShadowOpen, world.Outside
		if f.Dst.Is6() {
			src, dst = world.ShadowOpen6, world.Outside6
		}
		f.Src, f.Dst, f.L4 = wire.IP(src), wire.IP(dst), l4
	}
}

func comesBack(l4 wire.Transport) wire.Frame {
	return world.Answer(world.ShadowOpen, l4).With(func(f *wire.Frame) { f.Src = wire.IP(world.Outside) })
}

func asService(l4 wire.Transport) func(*wire.Frame) {
	return func(f *wire.Frame) { f.Src, f.Dst, f.L4 = wire.IP(world.VIPB), wire.IP("10.0.1.10"), l4 }
}

func TestServiceOutside_Flow_TranslatedLikeEgress(t *testing.T) {
	w := newLeadingWorld(t)
	syn, back := wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN}, wire.TCP{Sport: 8080, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("a TCP opening", w.Open, world.Asks(world.VIPB, syn), leaves(wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagSYN}), state.MarkEgress),
		toStack("over IPv6", w.Open, world.Asks(world.VipB6, syn), leaves(wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagSYN}), state.MarkEgress),
		toStack("a datagram", w.Open, world.Asks(world.VIPB, wire.UDP{Sport: 1000, Dport: 53}), leaves(wire.UDP{Sport: 1000, Dport: 5353}), state.MarkEgress),
	})
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		answered("TCP", w.Open, comesBack(back), asService(wire.TCP{Sport: 80, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK})),
		answered(
			"over IPv6",
			w.Open,
			comesBack(back).With(func(f *wire.Frame) { f.Src, f.Dst = wire.IP(world.Outside6), wire.IP(world.ShadowOpen6) }),
			func(f *wire.Frame) {
				f.Src, f.Dst, f.L4 = wire.IP(world.VipB6), wire.IP("fd10:0:0:1::10"), wire.TCP{Sport: 80, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK}
			},
		),
		answered("a datagram", w.Open, comesBack(wire.UDP{Sport: 5353, Dport: 1000}), asService(wire.UDP{Sport: 53, Dport: 1000})),
		answered("what answers no flow", w.Open, comesBack(wire.UDP{Sport: 5353, Dport: 1001}), func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.10") }),
	})
}

// stopped returns a packet that is dropped on its way to a backend.
func stopped(device int, in wire.Frame, backend string, l4 wire.Transport, reason string) world.Case {
	c := dropped(backend, device, in.Bytes(), reason)
	c.Out = in.With(func(f *wire.Frame) { f.Dst, f.L4 = wire.IP(backend), l4 }).Bytes()
	return c
}

// Addresses that are closed to the pods of the VPC are closed behind services too.
func TestServiceOutside_ClosedTarget_DroppedLikeEgress(t *testing.T) {
	w := world.New(t)
	for _, c := range []struct{ backend, backend6, reason string }{
		{"203.0.113.5", "2001:db8:dead::5", "egress_denied"},
		{"192.0.2.1", "2001:db8::2", "egress_node"},
		{"10.8.1.10", "fd18:0:0:1::10", "egress_default_vpc"},
		{"10.96.0.10", "fd96::10", "egress_service"}, // shared by all VPCs, and leads to no other service
		{"169.254.169.254", "fe80::77", "egress_link_local"},
		{"10.0.1.77", "fd10:0:0:1::77", "no_subnet"},
	} {
		lead(t, w, world.Leading(world.VNIOpen, c.backend, c.backend6)...)
		w.Expect(t, w.Objects.AliothFromPod, []world.Case{
			stopped(
				w.Open,
				world.Asks(world.VIPB, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN}),
				c.backend,
				wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagSYN},
				c.reason,
			),
			stopped(w.Open, world.Asks(world.VipB6, wire.UDP{Sport: 1000, Dport: 53}), c.backend6, wire.UDP{Sport: 1000, Dport: 5353}, c.reason),
		})
	}
	lead(t, w, world.Leading(world.VNIRed, world.Outside, world.Outside6)...)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		stopped(w.PodA, world.Asks(world.VIPB, wire.UDP{Sport: 1000, Dport: 53}), world.Outside, wire.UDP{Sport: 1000, Dport: 5353}, "egress_closed"),
	})
}

func TestServiceOutside_Fragments_GoAndComeBack(t *testing.T) {
	w := newLeadingWorld(t)
	first, later := world.DatagramIn(world.Asks(world.VIPB, nil), wire.UDP{Sport: 1000, Dport: 53}, 1)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("a later one before its first", w.Open, later.Bytes(), "egress_fragment"),
		toStack("the first", w.Open, first, leaves(wire.UDP{Sport: 1000, Dport: 5353, Payload: make([]byte, 16), NoChecksum: false}), state.MarkEgress),
		toStack("a later one", w.Open, later, func(f *wire.Frame) { f.Src, f.Dst = wire.IP(world.ShadowOpen), wire.IP(world.Outside) }, state.MarkEgress),
	})
	lead(t, w, world.Leading(world.VNIOpen, "203.0.113.5", world.Outside6)...)
	first, later = world.DatagramIn(world.Asks(world.VIPB, nil), wire.UDP{Sport: 1001, Dport: 53}, 2)
	denied := dropped("a later one of what may not leave", w.Open, later.Bytes(), "egress_fragment")
	denied.Out = later.With(func(f *wire.Frame) { f.Dst = wire.IP("203.0.113.5") }).Bytes()
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		stopped(w.Open, first, "203.0.113.5", wire.UDP{Sport: 1001, Dport: 5353, Payload: make([]byte, 16), NoChecksum: false}, "egress_denied"), denied,
	})
	lead(t, w, world.Leading(world.VNIOpen, world.Outside, world.Outside6)...)
	world.Run(t, w.Objects.AliothFromPod, w.Open, world.Asks(world.VIPB, wire.UDP{Sport: 1000, Dport: 53}).Bytes())
	first, later = world.DatagramIn(comesBack(nil), wire.UDP{Sport: 5353, Dport: 1000}, 1)
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		answered("the first of the answer", w.Open, first, asService(wire.UDP{Sport: 53, Dport: 1000, Payload: make([]byte, 16), NoChecksum: false})),
		answered("a later one", w.Open, later, func(f *wire.Frame) { f.Src, f.Dst = wire.IP(world.VIPB), wire.IP("10.0.1.10") }),
	})
}

func TestServiceOutside_ICMPError_NamesService(t *testing.T) {
	w := newLeadingWorld(t)
	world.Run(t, w.Objects.AliothFromPod, w.Open, world.Asks(world.VIPB, wire.UDP{Sport: 1000, Dport: 53}).Bytes())
	quoting := func(f wire.Frame) wire.ICMP {
		return wire.ICMP{Type: 3, Code: 3, Body: slices.Concat(make([]byte, 4), f.Bytes()[14:])}
	}
	between := func(src, dst string, sport, dport uint16) wire.ICMP {
		return quoting(wire.Frame{Src: wire.IP(src), Dst: wire.IP(dst), L4: wire.UDP{Sport: sport, Dport: dport, NoChecksum: true}})
	}
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		answered("of a router about the question", w.Open,
			comesBack(between(world.ShadowOpen, world.Outside, 1000, 5353)).With(func(f *wire.Frame) { f.Src = wire.IP("192.0.2.254") }), func(f *wire.Frame) {
				f.Src, f.Dst, f.L4 = wire.IP("192.0.2.254"), wire.IP("10.0.1.10"), between("10.0.1.10", world.VIPB, 1000, 53)
			}),
	})
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("of the pod about the answer", w.Open, world.Asks(world.VIPB, between(world.VIPB, "10.0.1.10", 53, 1000)), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowOpen), wire.IP(world.Outside), between(world.Outside, world.ShadowOpen, 5353, 1000)
		}, state.MarkEgress),
	})
}

// A flow goes to where its backend is now, and is counted once wherever that is.
func TestServiceOutside_BackendReplaced_FlowsEndOnce(t *testing.T) {
	w := newLeadingWorld(t)
	opening := world.Asks(world.VIPB, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN})
	question := world.Asks(world.VIPB, wire.UDP{Sport: 1000, Dport: 53})
	both := func() {
		t.Helper()
		world.Run(t, w.Objects.AliothFromPod, w.Open, opening.Bytes())
		world.Run(t, w.Objects.AliothFromPod, w.Open, question.Bytes())
	}
	expect := func(when string, flows int) {
		t.Helper()
		rows, err := world.FlowRows(w.Objects.AliothConnections)
		bpftest.Must(t, err)
		pairs, err := connections.List(bpf.Pinnable(w.Objects)) // both entries of a pair are there
		if err != nil || len(pairs) != flows || len(rows) != 2*flows {
			t.Fatalf("%s there are %d rows of %d flows, %v, want %d flows", when, len(rows), len(pairs), err, flows)
		}
		for key, row := range rows {
			if forward := key.Direction == bpf.AliothConnDirectionCONN_FORWARD; forward != (key.Inside == 1) {
				t.Errorf("%s there is the entry %+v: %+v", when, key, row)
			}
		}
	}
	both()
	expect("at first", 2)
	bpftest.Must(t, w.Apply(func() state.State {
		s := w.State()
		s.Services = append(s.Services, world.Leading(world.VNIOpen, world.Outside, world.Outside6)...)
		return s
	}()))
	if n, err := w.SweepConnections(world.Monotonic(t)); n != 0 || err != nil {
		t.Errorf("sweep removed %d, %v", n, err)
	}
	expect("after what changes nothing", 2)
	lead(t, w, world.Leading(world.VNIOpen, "198.51.100.2", world.Outside6)...)
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		answered("an answer that was under way", w.Open, comesBack(wire.UDP{Sport: 5353, Dport: 1000}), asService(wire.UDP{Sport: 53, Dport: 1000})),
	})
	if n, err := w.SweepConnections(world.Monotonic(t) + 2*time.Second); n != 1 || err != nil {
		t.Errorf("sweep removed %d, %v, want what is left of UDP", n, err)
	}
	expect("with another backend, UDP has ended and", 1)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack(
			"TCP stays",
			w.Open,
			world.Asks(world.VIPB, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagACK}),
			leaves(wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagACK}),
			state.MarkEgress,
		),
		toStack("a new opening does not", w.Open, opening, func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowOpen), wire.IP("198.51.100.2"), wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagSYN}
		}, state.MarkEgress),
	})
	both()
	expect("opened anew", 2)
	if n, err := w.SweepConnections(world.Monotonic(t) + establishedIdle + time.Second); n != 2 || err != nil {
		t.Errorf("sweep removed %d, %v", n, err)
	}
	expect("swept", 0)
}

// An address that was outside can become the VPC's own, when its ranges grow. The flow
// that is remembered must not take its answers from the other side then.
func TestServiceOutside_BackendEntersVPC_OldFlowUnused(t *testing.T) {
	w := newLeadingWorld(t)
	opening := world.Asks(world.VIPB, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN})
	world.Run(t, w.Objects.AliothFromPod, w.Open, opening.Bytes())
	s := w.State()
	inside := world.Leading(world.VNIOpen, world.Outside, world.Outside6)
	for i := range inside {
		inside[i].Backends[0].Outside = false
	}
	s.Services = append(s.Services, inside...)
	for i := range s.VPCs {
		if s.VPCs[i].VNI == world.VNIOpen {
			s.VPCs[i].Prefixes = append(s.VPCs[i].Prefixes, wire.Prefix("198.51.100.0/24"))
		}
	}
	s.Addresses = append(
		s.Addresses,
		state.Address{VNI: world.VNIOpen, IP: wire.IP(world.Outside), Kind: state.Remote, Node: wire.IP("192.0.2.2"), MAC: world.MacR},
	)
	bpftest.Must(t, w.Apply(s))
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		goes("a new opening", w.Open, opening, world.MacR, func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP(world.Outside), wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagSYN}
		}),
	})
	rows, err := world.FlowRows(w.Objects.AliothConnections)
	bpftest.Must(t, err)
	for key, row := range rows {
		if key.Inside != 1 || row.Outside != 0 {
			t.Errorf("there is still %+v: %+v", key, row)
		}
	}
}
