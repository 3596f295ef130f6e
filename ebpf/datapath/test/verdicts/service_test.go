// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func ask6(l4 wire.Transport) wire.Frame {
	return world.FromA6(func(f *wire.Frame) { f.Dst, f.L4 = wire.IP("fd96::10"), l4 })
}

func answered(name string, device int, in wire.Frame, out func(*wire.Frame)) world.Case {
	return world.Case{
		Name: name, Device: device, In: in.Bytes(), Out: in.With(out).Bytes(), Verdict: world.ActOK,
		Counts: world.One("to_pod/from_stack"),
	}
}

func TestSharedService_OverlappingVPCs_Reached(t *testing.T) {
	w := world.New(t)
	query := []byte("query")
	toBackend := func(shadow string, l4 wire.Transport) func(*wire.Frame) {
		return func(f *wire.Frame) { f.Src, f.Dst, f.L4 = wire.IP(shadow), wire.IP("10.8.1.10"), l4 }
	}
	fromVIP := func(l4 wire.Transport) func(*wire.Frame) {
		return func(f *wire.Frame) { f.Src, f.Dst, f.L4 = wire.IP("10.96.0.10"), wire.IP("10.0.1.10"), l4 }
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("a query of red", w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53, Payload: query, NoChecksum: false}),
			toBackend(world.ShadowA, wire.UDP{Sport: 1000, Dport: 5353, Payload: query, NoChecksum: false}), state.MarkShared),
		toStack("the same query again", w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53, Payload: query, NoChecksum: false}),
			toBackend(world.ShadowA, wire.UDP{Sport: 1000, Dport: 5353, Payload: query, NoChecksum: false}), state.MarkShared),
		toStack("the same query of blue, under the same address and port", w.Twin, world.Ask(wire.UDP{Sport: 1000, Dport: 53, Payload: query, NoChecksum: false}),
			toBackend("169.254.64.12", wire.UDP{Sport: 1000, Dport: 5353, Payload: query, NoChecksum: false}), state.MarkShared),
		toStack("a query without a checksum", w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53, Payload: query, NoChecksum: true}),
			toBackend(world.ShadowA, wire.UDP{Sport: 1000, Dport: 5353, Payload: query, NoChecksum: true}), state.MarkShared),
		toStack("a TCP opening", w.PodA, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagSYN}),
			toBackend(world.ShadowA, wire.TCP{Sport: 1000, Dport: 5353, Flags: wire.FlagSYN}), state.MarkShared),
		toStack("TCP data", w.PodA, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagACK, Payload: query}),
			toBackend(world.ShadowA, wire.TCP{Sport: 1000, Dport: 5353, Flags: wire.FlagACK, Payload: query}), state.MarkShared),
	})
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		answered("the answer to red", w.PodA, world.Answer(world.ShadowA, wire.UDP{Sport: 5353, Dport: 1000, Payload: query, NoChecksum: false}),
			fromVIP(wire.UDP{Sport: 53, Dport: 1000, Payload: query, NoChecksum: false})),
		answered("the answer to blue", w.Twin, world.Answer("169.254.64.12", wire.UDP{Sport: 5353, Dport: 1000, Payload: query, NoChecksum: false}),
			fromVIP(wire.UDP{Sport: 53, Dport: 1000, Payload: query, NoChecksum: false})),
		answered("a TCP answer", w.PodA, world.Answer(world.ShadowA, wire.TCP{Sport: 5353, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK}),
			fromVIP(wire.TCP{Sport: 53, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK})),
		answered("an answer from the same address that belongs to no flow", w.PodA,
			world.Answer(world.ShadowA, wire.UDP{Sport: 5353, Dport: 1001, Payload: query, NoChecksum: false}), func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.10") }),
	})
}

func TestSharedService_OverIPv6_Reached(t *testing.T) {
	w := world.New(t)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("a query", w.PodA, ask6(wire.UDP{Sport: 1000, Dport: 53}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA6), wire.IP("fd18:0:0:1::10"), wire.UDP{Sport: 1000, Dport: 5353}
		}, state.MarkShared),
	})
	reply := world.Answer(world.ShadowA6, wire.UDP{Sport: 5353, Dport: 1000}).With(func(f *wire.Frame) { f.Src = wire.IP("fd18:0:0:1::10") })
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		answered("the answer", w.PodA, reply, func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP("fd96::10"), wire.IP("fd10:0:0:1::10"), wire.UDP{Sport: 53, Dport: 1000}
		}),
	})
}

func TestSharedService_NotOffered_NotDelivered(t *testing.T) {
	w := world.New(t)
	api := func(l4 wire.Transport) wire.Frame {
		return world.Ask(l4).With(func(f *wire.Frame) { f.Dst = wire.IP("10.96.0.1") })
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("an echo request", w.PodA, world.Ask(wire.ICMP{Type: 8, Body: make([]byte, 12)}).Bytes(), "service_icmp"),
		refused("another port", w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 54})),
		refused("another protocol at the port", w.PodA, api(wire.UDP{Sport: 1000, Dport: 443})),
		dropped("a fragment of TCP", w.PodA, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagSYN}).With(func(f *wire.Frame) {
			f.Fragment = &wire.Fragment{Offset: 0, More: true}
		}).Bytes(), "egress_fragment"),
		refused("a service without backends", w.PodA, api(wire.TCP{Sport: 1000, Dport: 444, Flags: wire.FlagSYN})),
		dropped("TCP data without an opening", w.PodA, api(wire.TCP{Sport: 1000, Dport: 443, Flags: wire.FlagACK}).Bytes(), "no_connection"),
		dropped("TCP's answer without an opening", w.PodA, api(wire.TCP{Sport: 1000, Dport: 443, Flags: wire.FlagSYN | wire.FlagACK}).Bytes(), "no_connection"),
		dropped("an address that is no service", w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53}).With(func(f *wire.Frame) {
			f.Dst = wire.IP("10.96.0.11")
		}).Bytes(), "egress_closed"),
	})
}

func TestICMPError_FlowToSharedService_NamesService(t *testing.T) {
	w := world.New(t)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("a query", w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), wire.UDP{Sport: 1000, Dport: 5353}
		}, state.MarkShared),
	})
	report := func(src, dst string, port uint16) wire.ICMP {
		f := wire.Frame{Src: wire.IP(src), Dst: wire.IP(dst), L4: wire.UDP{Sport: 1000, Dport: port, NoChecksum: true}}
		return wire.ICMP{Type: 3, Code: 3, Body: slices.Concat(make([]byte, 4), f.Bytes()[14:])}
	}
	by := func(name, src, seen string) world.Case {
		in := world.Answer(world.ShadowA, report(world.ShadowA, "10.8.1.10", 5353)).With(func(f *wire.Frame) { f.Src = wire.IP(src) })
		return answered(name, w.PodA, in, func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(seen), wire.IP("10.0.1.10"), report("10.0.1.10", "10.96.0.10", 53)
		})
	}
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		by("by the backend", "10.8.1.10", "10.96.0.10"),
		by("by a router on the way", "192.0.2.254", "192.0.2.254"),
	})
}

func TestFlow_BackendGone_Ends(t *testing.T) {
	w := world.New(t)
	query := func(name string, l4, rewritten wire.Transport, backend string) world.Case {
		return toStack(name, w.PodA, world.Ask(l4), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP(backend), rewritten
		}, state.MarkShared)
	}
	datagram := func(name, backend string) world.Case {
		return query(name, wire.UDP{Sport: 1000, Dport: 53}, wire.UDP{Sport: 1000, Dport: 5353}, backend)
	}
	segment := func(name string, flags uint8, backend string) world.Case {
		return query(name, wire.TCP{Sport: 1000, Dport: 53, Flags: flags}, wire.TCP{Sport: 1000, Dport: 5353, Flags: flags}, backend)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		datagram("UDP before", "10.8.1.10"), segment("TCP before", wire.FlagSYN, "10.8.1.10"),
	})
	s := w.State()
	s.Services[0].Backends = []state.Backend{{IP: wire.IP("10.8.1.11"), Port: 5353}}
	s.Services[1].Backends = []state.Backend{{IP: wire.IP("10.8.1.11"), Port: 5353}}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	late := world.Answer(world.ShadowA, wire.UDP{Sport: 5353, Dport: 1000})
	underWay := func(name string, out func(*wire.Frame)) { // an answer of the last backend
		t.Helper()
		w.Expect(t, w.Objects.AliothToPod, []world.Case{answered(name, w.PodA, late, out)})
	}
	asService := func(f *wire.Frame) {
		f.Src, f.Dst, f.L4 = wire.IP("10.96.0.10"), wire.IP("10.0.1.10"), wire.UDP{Sport: 53, Dport: 1000}
	}
	underWay("an answer that was under way", asService)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		datagram("UDP goes to the new backend", "10.8.1.11"),
		segment("a TCP flow stays", wire.FlagACK, "10.8.1.10"),
	})
	underWay("an answer after that", asService)
	if n, err := w.SweepConnections(world.Monotonic(t) + 2*time.Second); n != 1 || err != nil {
		t.Errorf("sweep removed %d, %v, want what is left of the flow to the last backend", n, err)
	}
	underWay("an answer long after", func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.10") })
	s.Services = s.Services[:1]
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		datagram("UDP stays", "10.8.1.11"),
		dropped("TCP of a service that is gone", w.PodA, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagACK}).Bytes(), "service_port"),
	})
	rows, err := world.FlowRows(w.Objects.AliothConnections)
	if err != nil || len(rows) != 2 {
		t.Errorf("connections are %v, %v, want the UDP flow's two", rows, err)
	}
}

func TestTCPOpening_BackendGone_OtherChosen(t *testing.T) {
	w := world.New(t)
	segment := func(name string, flags uint8, backend string) world.Case {
		return toStack(name, w.PodA, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: flags}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP(backend), wire.TCP{Sport: 1000, Dport: 5353, Flags: flags}
		}, state.MarkShared)
	}
	backends := func(hosts ...string) {
		t.Helper()
		s := w.State()
		s.Services[1].Backends = nil
		for _, h := range hosts {
			s.Services[1].Backends = append(s.Services[1].Backends, state.Backend{IP: wire.IP(h), Port: 5353})
		}
		if err := w.Apply(s); err != nil {
			t.Fatal(err)
		}
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{segment("the first opening", wire.FlagSYN, "10.8.1.10")})
	backends("10.8.1.2", "10.8.1.7", "10.8.1.9", "10.8.1.10", "10.8.1.11", "10.8.1.200", "10.9.0.1")
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		segment("an opening while the backend is one among others", wire.FlagSYN, "10.8.1.10"),
	})
	backends("10.8.1.11")
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		segment("data of the flow that was open", wire.FlagACK, "10.8.1.10"),
		segment("an opening of the same port", wire.FlagSYN, "10.8.1.11"),
		segment("data after it", wire.FlagACK, "10.8.1.11"),
	})
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		answered("what the former backend still sends", w.PodA, world.Answer(world.ShadowA, wire.TCP{Sport: 5353, Dport: 1000, Flags: wire.FlagACK}),
			func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.10") }),
	})
	rows, err := world.FlowRows(w.Objects.AliothConnections)
	if err != nil || len(rows) != 2 {
		t.Errorf("connections are %v, %v, want one flow's two", rows, err)
	}
	backends()
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		refused("an opening when no backend is left", w.PodA, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagSYN})),
		dropped("data after it", w.PodA, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagACK}).Bytes(), "no_connection"),
	})
}

func TestOpening_ManyBackends_OneFound(t *testing.T) {
	w := world.New(t)
	s := w.State()
	s.Services[1].Backends = nil
	for i := range uint16(250) {
		s.Services[1].Backends = append(s.Services[1].Backends, state.Backend{IP: wire.IP("10.8.1.10"), Port: 256*(i%16) + i + 1})
	}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	for port := range uint16(100) {
		opening := world.Ask(wire.TCP{Sport: 1000 + port, Dport: 53, Flags: wire.FlagSYN}).Bytes()
		_, first, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, opening)
		if verdict, again, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, opening); verdict != world.ActOK || !slices.Equal(first, again) {
			t.Fatalf("flow %d: verdict %d, and the opening went to\n%x, its repetition to\n%x", port, verdict, first, again)
		}
		if _, err := w.SweepConnections(world.Monotonic(t) + time.Hour); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFlows_SeveralBackends_SpreadOverAll(t *testing.T) {
	w := world.New(t)
	s := w.State()
	s.Services[0].Backends = []state.Backend{
		{IP: wire.IP("10.8.1.10"), Port: 5353},
		{IP: wire.IP("10.8.1.11"), Port: 5353},
		{IP: wire.IP("10.8.1.12"), Port: 5353},
	}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	picked := map[[4]byte]int{}
	for port := range uint16(64) {
		verdict, out, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, world.Ask(wire.UDP{Sport: 1000 + port, Dport: 53}).Bytes())
		if verdict != world.ActOK {
			t.Fatalf("verdict is %d", verdict)
		}
		picked[[4]byte(out[30:34])]++
		if _, err := w.SweepConnections(world.Monotonic(t) + time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range s.Services[0].Backends {
		if picked[b.IP.As4()] == 0 {
			t.Errorf("no flow of 64 went to %s: %v", b.IP, picked)
		}
	}
	if len(picked) != len(s.Services[0].Backends) {
		t.Errorf("flows went to %v", picked)
	}
}
