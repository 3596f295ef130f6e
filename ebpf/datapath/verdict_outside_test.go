// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// leading are services of a VPC that lead outside of it.
func leading(vni uint32, backend4, backend6 string) []state.Service {
	var list []state.Service
	for vip, backend := range map[string]string{vipB: backend4, vipB6: backend6} {
		list = append(list,
			state.Service{VNI: vni, VIP: Ip(vip), Proto: state.ProtoTCP, Port: 80, Backends: []state.Backend{{IP: Ip(backend), Port: 8080, Outside: true}}},
			state.Service{VNI: vni, VIP: Ip(vip), Proto: state.ProtoUDP, Port: 53, Backends: []state.Backend{{IP: Ip(backend), Port: 5353, Outside: true}}},
		)
	}
	return list
}

// lead makes services of VPCs lead outside, beside those that all share.
func (w *world) lead(t *testing.T, services ...state.Service) {
	t.Helper()
	s := w.state()
	s.Services = append(s.Services, services...)
	Must(t, w.Apply(s))
}

func newLeadingWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(c *programs.Config) { c.ConnectionsPerInterface = 1000 })
	w.lead(t, leading(vniOpen, outside, outside6)...)
	return w
}

// leaves is what becomes of a packet of the open VPC that goes outside by a service,
// and comesBack one that answers it.
func leaves(l4 transport) func(*frame) {
	return func(f *frame) {
		src, dst := shadowOpen, outside
		if f.Dst.Is6() {
			src, dst = shadowOpen6, outside6
		}
		f.Src, f.Dst, f.L4 = Ip(src), Ip(dst), l4
	}
}

func comesBack(l4 transport) frame {
	return answer(shadowOpen, l4).with(func(f *frame) { f.Src = Ip(outside) })
}

func asService(l4 transport) func(*frame) {
	return func(f *frame) { f.Src, f.Dst, f.L4 = Ip(vipB), Ip("10.0.1.10"), l4 }
}

func TestAServiceLeadsOutsideAsTheVPCsEgressDoes(t *testing.T) {
	w := newLeadingWorld(t)
	syn, back := tcp{Sport: 1000, Dport: 80, Flags: flagSYN}, tcp{Sport: 8080, Dport: 1000, Flags: flagSYN | flagACK}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("a TCP opening", w.open, asks(vipB, syn), leaves(tcp{Sport: 1000, Dport: 8080, Flags: flagSYN}), state.MarkEgress),
		toStack("over IPv6", w.open, asks(vipB6, syn), leaves(tcp{Sport: 1000, Dport: 8080, Flags: flagSYN}), state.MarkEgress),
		toStack("a datagram", w.open, asks(vipB, udp{Sport: 1000, Dport: 53}), leaves(udp{Sport: 1000, Dport: 5353}), state.MarkEgress),
	})
	w.check(t, w.objects.AliothToPod, []verdictCase{
		answered("TCP", w.open, comesBack(back), asService(tcp{Sport: 80, Dport: 1000, Flags: flagSYN | flagACK})),
		answered("over IPv6", w.open, comesBack(back).with(func(f *frame) { f.Src, f.Dst = Ip(outside6), Ip(shadowOpen6) }), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(vipB6), Ip("fd10:0:0:1::10"), tcp{Sport: 80, Dport: 1000, Flags: flagSYN | flagACK}
		}),
		answered("a datagram", w.open, comesBack(udp{Sport: 5353, Dport: 1000}), asService(udp{Sport: 53, Dport: 1000})),
		answered("what answers no flow", w.open, comesBack(udp{Sport: 5353, Dport: 1001}), func(f *frame) { f.Dst = Ip("10.0.1.10") }),
	})
}

// stopped is a packet that is dropped on its way to a backend.
func stopped(device int, in frame, backend string, l4 transport, reason string) verdictCase {
	c := dropped(backend, device, in.bytes(), reason)
	c.out = in.with(func(f *frame) { f.Dst, f.L4 = Ip(backend), l4 }).bytes()
	return c
}

// Whatever a service says, what is closed to the pods of the VPC is closed behind it.
func TestEgressDecidesByWhereAServiceLeads(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ backend, backend6, reason string }{
		{"203.0.113.5", "2001:db8:dead::5", "egress_denied"},
		{"192.0.2.1", "2001:db8::2", "egress_node"},
		{"10.8.1.10", "fd18:0:0:1::10", "egress_default_vpc"},
		{"10.96.0.10", "fd96::10", "egress_service"}, // which all share, and which leads to no other service
		{"169.254.169.254", "fe80::77", "egress_link_local"},
		{"10.0.1.77", "fd10:0:0:1::77", "no_subnet"},
	} {
		w.lead(t, leading(vniOpen, c.backend, c.backend6)...)
		w.check(t, w.objects.AliothFromPod, []verdictCase{
			stopped(w.open, asks(vipB, tcp{Sport: 1000, Dport: 80, Flags: flagSYN}), c.backend, tcp{Sport: 1000, Dport: 8080, Flags: flagSYN}, c.reason),
			stopped(w.open, asks(vipB6, udp{Sport: 1000, Dport: 53}), c.backend6, udp{Sport: 1000, Dport: 5353}, c.reason),
		})
	}
	w.lead(t, leading(vniRed, outside, outside6)...)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		stopped(w.podA, asks(vipB, udp{Sport: 1000, Dport: 53}), outside, udp{Sport: 1000, Dport: 5353}, "egress_closed"),
	})
}

func TestFragmentsGoOutsideByAServiceAndBack(t *testing.T) {
	w := newLeadingWorld(t)
	first, later := datagramIn(asks(vipB, nil), udp{Sport: 1000, Dport: 53}, 1)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("a later one before its first", w.open, later.bytes(), "egress_fragment"),
		toStack("the first", w.open, first, leaves(udp{1000, 5353, make([]byte, 16), false}), state.MarkEgress),
		toStack("a later one", w.open, later, func(f *frame) { f.Src, f.Dst = Ip(shadowOpen), Ip(outside) }, state.MarkEgress),
	})
	w.lead(t, leading(vniOpen, "203.0.113.5", outside6)...)
	first, later = datagramIn(asks(vipB, nil), udp{Sport: 1001, Dport: 53}, 2)
	denied := dropped("a later one of what may not leave", w.open, later.bytes(), "egress_fragment")
	denied.out = later.with(func(f *frame) { f.Dst = Ip("203.0.113.5") }).bytes()
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		stopped(w.open, first, "203.0.113.5", udp{1001, 5353, make([]byte, 16), false}, "egress_denied"), denied,
	})
	w.lead(t, leading(vniOpen, outside, outside6)...)
	run(t, w.objects.AliothFromPod, w.open, asks(vipB, udp{Sport: 1000, Dport: 53}).bytes())
	first, later = datagramIn(comesBack(nil), udp{Sport: 5353, Dport: 1000}, 1)
	w.check(t, w.objects.AliothToPod, []verdictCase{
		answered("the first of the answer", w.open, first, asService(udp{53, 1000, make([]byte, 16), false})),
		answered("a later one", w.open, later, func(f *frame) { f.Src, f.Dst = Ip(vipB), Ip("10.0.1.10") }),
	})
}

func TestErrorsAboutAFlowThatLeadsOutsideNameTheService(t *testing.T) {
	w := newLeadingWorld(t)
	run(t, w.objects.AliothFromPod, w.open, asks(vipB, udp{Sport: 1000, Dport: 53}).bytes())
	quoting := func(f frame) icmp {
		return icmp{Type: 3, Code: 3, Body: slices.Concat(make([]byte, 4), f.bytes()[14:])}
	}
	between := func(src, dst string, sport, dport uint16) icmp {
		return quoting(frame{Src: Ip(src), Dst: Ip(dst), L4: udp{Sport: sport, Dport: dport, NoChecksum: true}})
	}
	w.check(t, w.objects.AliothToPod, []verdictCase{
		answered("of a router about the question", w.open,
			comesBack(between(shadowOpen, outside, 1000, 5353)).with(func(f *frame) { f.Src = Ip("192.0.2.254") }), func(f *frame) {
				f.Src, f.Dst, f.L4 = Ip("192.0.2.254"), Ip("10.0.1.10"), between("10.0.1.10", vipB, 1000, 53)
			}),
	})
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("of the pod about the answer", w.open, asks(vipB, between(vipB, "10.0.1.10", 53, 1000)), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadowOpen), Ip(outside), between(outside, shadowOpen, 5353, 1000)
		}, state.MarkEgress),
	})
}

// A flow goes to where its backend is now, and is counted once wherever that is.
func TestFlowsThatLeadOutsideEndLikeOthers(t *testing.T) {
	w := newLeadingWorld(t)
	opening := asks(vipB, tcp{Sport: 1000, Dport: 80, Flags: flagSYN})
	question := asks(vipB, udp{Sport: 1000, Dport: 53})
	both := func() {
		t.Helper()
		run(t, w.objects.AliothFromPod, w.open, opening.bytes())
		run(t, w.objects.AliothFromPod, w.open, question.bytes())
	}
	expect := func(when string, flows int) {
		t.Helper()
		rows, err := flowRows(w.objects.AliothConnections)
		Must(t, err)
		pairs, err := connections.List(bpf.Pinnable(w.objects)) // of which both entries are there
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
	Must(t, w.Apply(func() state.State {
		s := w.state()
		s.Services = append(s.Services, leading(vniOpen, outside, outside6)...)
		return s
	}()))
	if n, err := w.SweepConnections(monotonic(t)); n != 0 || err != nil {
		t.Errorf("sweep removed %d, %v", n, err)
	}
	expect("after what changes nothing", 2)
	w.lead(t, leading(vniOpen, "198.51.100.2", outside6)...)
	w.check(t, w.objects.AliothToPod, []verdictCase{
		answered("an answer that was under way", w.open, comesBack(udp{Sport: 5353, Dport: 1000}), asService(udp{Sport: 53, Dport: 1000})),
	})
	if n, err := w.SweepConnections(monotonic(t) + 2*time.Second); n != 1 || err != nil {
		t.Errorf("sweep removed %d, %v, want what is left of UDP", n, err)
	}
	expect("with another backend, UDP has ended and", 1)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("TCP stays", w.open, asks(vipB, tcp{Sport: 1000, Dport: 80, Flags: flagACK}), leaves(tcp{Sport: 1000, Dport: 8080, Flags: flagACK}), state.MarkEgress),
		toStack("a new opening does not", w.open, opening, func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadowOpen), Ip("198.51.100.2"), tcp{Sport: 1000, Dport: 8080, Flags: flagSYN}
		}, state.MarkEgress),
	})
	both()
	expect("opened anew", 2)
	if n, err := w.SweepConnections(monotonic(t) + establishedIdle + time.Second); n != 2 || err != nil {
		t.Errorf("sweep removed %d, %v", n, err)
	}
	expect("swept", 0)
}

// An address that was outside can become the VPC's own, when its ranges grow. The flow
// that is remembered must not take its answers from the other side then.
func TestABackendThatComesIntoTheVPCIsAnother(t *testing.T) {
	w := newLeadingWorld(t)
	opening := asks(vipB, tcp{Sport: 1000, Dport: 80, Flags: flagSYN})
	run(t, w.objects.AliothFromPod, w.open, opening.bytes())
	s := w.state()
	inside := leading(vniOpen, outside, outside6)
	for i := range inside {
		inside[i].Backends[0].Outside = false
	}
	s.Services = append(s.Services, inside...)
	for i := range s.VPCs {
		if s.VPCs[i].VNI == vniOpen {
			s.VPCs[i].Prefixes = append(s.VPCs[i].Prefixes, Px("198.51.100.0/24"))
		}
	}
	s.Addresses = append(s.Addresses, state.Address{VNI: vniOpen, IP: Ip(outside), Kind: state.Remote, Node: Ip("192.0.2.2"), MAC: macR})
	Must(t, w.Apply(s))
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		goes("a new opening", w.open, opening, macR, func(f *frame) {
			f.Dst, f.L4 = Ip(outside), tcp{Sport: 1000, Dport: 8080, Flags: flagSYN}
		}),
	})
	rows, err := flowRows(w.objects.AliothConnections)
	Must(t, err)
	for key, row := range rows {
		if key.Inside != 1 || row.Outside != 0 {
			t.Errorf("there is still %+v: %+v", key, row)
		}
	}
}
