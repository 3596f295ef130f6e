// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// ask is a packet of pod A, or of its twin in another VPC, to a service.
func ask(l4 transport) frame {
	return fromA(func(f *frame) { f.Dst, f.L4 = Ip("10.96.0.10"), l4 }) // cluster DNS
}

func ask6(l4 transport) frame {
	return fromA6(func(f *frame) { f.Dst, f.L4 = Ip("fd96::10"), l4 })
}

// answer is what the host's stack passes back to a shadow.
func answer(shadow string, l4 transport) frame {
	return frame{EthDst: MacA, EthSrc: state.VirtualMAC, Src: Ip("10.8.1.10"), Dst: Ip(shadow), L4: l4}
}

func answered(name string, device int, in frame, out func(*frame)) verdictCase {
	return verdictCase{
		name: name, device: device, in: in.bytes(), out: in.with(out).bytes(), verdict: actOK,
		counts: one("to_pod/from_stack"),
	}
}

// How long flows may be silent, as docs/services.md says.
const (
	establishedIdle = 2*time.Hour + 4*time.Minute
	closingIdle     = 10 * time.Second
	dnsIdle         = 6 * time.Second
)

// flowRows are the entries of the table of flows.
func flowRows(m *ebpf.Map) (map[bpf.AliothConnKey]bpf.AliothConn, error) {
	rows := map[bpf.AliothConnKey]bpf.AliothConn{}
	return rows, bpf.ReadMap(m, rows)
}

func TestASharedServiceIsReachedFromOverlappingVPCs(t *testing.T) {
	w := newWorld(t)
	query := []byte("query")
	toBackend := func(shadow string, l4 transport) func(*frame) {
		return func(f *frame) { f.Src, f.Dst, f.L4 = Ip(shadow), Ip("10.8.1.10"), l4 }
	}
	fromVIP := func(l4 transport) func(*frame) {
		return func(f *frame) { f.Src, f.Dst, f.L4 = Ip("10.96.0.10"), Ip("10.0.1.10"), l4 }
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("a query of red", w.podA, ask(udp{1000, 53, query, false}),
			toBackend(shadowA, udp{1000, 5353, query, false}), state.MarkShared),
		toStack("the same query again", w.podA, ask(udp{1000, 53, query, false}),
			toBackend(shadowA, udp{1000, 5353, query, false}), state.MarkShared),
		toStack("the same query of blue, under the same address and port", w.twin, ask(udp{1000, 53, query, false}),
			toBackend("169.254.64.12", udp{1000, 5353, query, false}), state.MarkShared),
		toStack("a query without a checksum", w.podA, ask(udp{1000, 53, query, true}),
			toBackend(shadowA, udp{1000, 5353, query, true}), state.MarkShared),
		toStack("a TCP opening", w.podA, ask(tcp{Sport: 1000, Dport: 53, Flags: flagSYN}),
			toBackend(shadowA, tcp{Sport: 1000, Dport: 5353, Flags: flagSYN}), state.MarkShared),
		toStack("TCP data", w.podA, ask(tcp{Sport: 1000, Dport: 53, Flags: flagACK, Payload: query}),
			toBackend(shadowA, tcp{Sport: 1000, Dport: 5353, Flags: flagACK, Payload: query}), state.MarkShared),
	})
	w.check(t, w.objects.AliothToPod, []verdictCase{
		answered("the answer to red", w.podA, answer(shadowA, udp{5353, 1000, query, false}),
			fromVIP(udp{53, 1000, query, false})),
		answered("the answer to blue", w.twin, answer("169.254.64.12", udp{5353, 1000, query, false}),
			fromVIP(udp{53, 1000, query, false})),
		answered("a TCP answer", w.podA, answer(shadowA, tcp{Sport: 5353, Dport: 1000, Flags: flagSYN | flagACK}),
			fromVIP(tcp{Sport: 53, Dport: 1000, Flags: flagSYN | flagACK})),
		answered("an answer from the same address that belongs to no flow", w.podA,
			answer(shadowA, udp{5353, 1001, query, false}), func(f *frame) { f.Dst = Ip("10.0.1.10") }),
	})
}

func TestASharedServiceIsReachedOverIPv6(t *testing.T) {
	w := newWorld(t)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("a query", w.podA, ask6(udp{Sport: 1000, Dport: 53}), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(ShadowA6), Ip("fd18:0:0:1::10"), udp{Sport: 1000, Dport: 5353}
		}, state.MarkShared),
	})
	reply := answer(ShadowA6, udp{Sport: 5353, Dport: 1000}).with(func(f *frame) { f.Src = Ip("fd18:0:0:1::10") })
	w.check(t, w.objects.AliothToPod, []verdictCase{
		answered("the answer", w.podA, reply, func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip("fd96::10"), Ip("fd10:0:0:1::10"), udp{Sport: 53, Dport: 1000}
		}),
	})
}

func TestWhatASharedServiceDoesNotOfferIsDropped(t *testing.T) {
	w := newWorld(t)
	api := func(l4 transport) []byte { return ask(l4).with(func(f *frame) { f.Dst = Ip("10.96.0.1") }).bytes() }
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("an echo request", w.podA, ask(icmp{Type: 8, Body: make([]byte, 12)}).bytes(), "service_icmp"),
		dropped("another port", w.podA, ask(udp{Sport: 1000, Dport: 54}).bytes(), "service_port"),
		dropped("another protocol at the port", w.podA, api(udp{Sport: 1000, Dport: 443}), "service_port"),
		dropped("a protocol without ports", w.podA, ask(raw{47, make([]byte, 32)}).bytes(), "egress_protocol"),
		dropped("a fragment of TCP", w.podA, ask(tcp{Sport: 1000, Dport: 53, Flags: flagSYN}).with(func(f *frame) {
			f.Fragment = &fragment{0, true}
		}).bytes(), "egress_fragment"),
		dropped("a service without backends", w.podA, api(tcp{Sport: 1000, Dport: 444, Flags: flagSYN}), "no_backend"),
		dropped("TCP data without an opening", w.podA, api(tcp{Sport: 1000, Dport: 443, Flags: flagACK}), "no_connection"),
		dropped("TCP's answer without an opening", w.podA, api(tcp{Sport: 1000, Dport: 443, Flags: flagSYN | flagACK}), "no_connection"),
		dropped("an address that is no service", w.podA, ask(udp{Sport: 1000, Dport: 53}).with(func(f *frame) {
			f.Dst = Ip("10.96.0.11")
		}).bytes(), "egress_closed"),
	})
}

func TestTwoServicesDoNotShareOneFlowToABackend(t *testing.T) {
	w := newWorld(t)
	syn := tcp{Sport: 1000, Dport: 443, Flags: flagSYN}
	first := ask(syn).with(func(f *frame) { f.Dst = Ip("10.96.0.1") })
	second := ask(syn).with(func(f *frame) { f.Dst = Ip("10.96.0.2") })
	leaves := func(f *frame) {
		f.Src, f.Dst, f.L4 = Ip(shadowA), Ip("192.0.2.1"), tcp{Sport: 1000, Dport: 6443, Flags: flagSYN}
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("by way of the first", w.podA, first, leaves, state.MarkShared),
		dropped("by way of the second, from the same port", w.podA, second.bytes(), "conn_conflict"),
		toStack("by way of the first again", w.podA, first, leaves, state.MarkShared),
	})
}

func TestAnInterfaceBeyondItsShareOfFlowsIsRefusedAndNoOtherIs(t *testing.T) {
	w := newWorld(t) // with a share of 2
	flow := func(name string, device int, shadow string, port uint16) verdictCase {
		return toStack(name, device, ask(udp{Sport: port, Dport: 53}), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadow), Ip("10.8.1.10"), udp{Sport: port, Dport: 5353}
		}, state.MarkShared)
	}
	third := ask(udp{Sport: 1003, Dport: 53}).bytes()
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		flow("the first flow", w.podA, shadowA, 1001),
		flow("the second flow", w.podA, shadowA, 1002),
		dropped("the third flow", w.podA, third, "conn_limit"),
		flow("the second flow again", w.podA, shadowA, 1002),
		flow("another interface's flow", w.twin, "169.254.64.12", 1003),
	})
	now := monotonic(t)
	if n, err := w.SweepConnections(now); n != 0 || err != nil {
		t.Fatalf("sweep of living flows removed %d, %v", n, err)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("the third flow after a sweep that removed nothing", w.podA, third, "conn_limit"),
	})
	if n, err := w.SweepConnections(now + dnsIdle + 2*time.Second); n != 3 || err != nil {
		t.Fatalf("sweep of idle flows removed %d, %v, want 3", n, err)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		flow("the third flow after the sweep", w.podA, shadowA, 1003),
		flow("a fourth", w.podA, shadowA, 1004),
		dropped("a fifth", w.podA, ask(udp{Sport: 1005, Dport: 53}).bytes(), "conn_limit"),
	})
}

func monotonic(t *testing.T) time.Duration {
	t.Helper()
	now, err := MonotonicNow()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func TestAReusedPortOpensAClosedFlowAnew(t *testing.T) {
	w := newWorld(t)
	send := func(name string, flags uint8) verdictCase {
		return toStack(name, w.podA, ask(tcp{Sport: 1000, Dport: 53, Flags: flags}), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadowA), Ip("10.8.1.10"), tcp{Sport: 1000, Dport: 5353, Flags: flags}
		}, state.MarkShared)
	}
	receive := func(name string, flags uint8) verdictCase {
		return answered(name, w.podA, answer(shadowA, tcp{Sport: 5353, Dport: 1000, Flags: flags}), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip("10.96.0.10"), Ip("10.0.1.10"), tcp{Sport: 53, Dport: 1000, Flags: flags}
		})
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{send("opening", flagSYN), send("closing", flagFIN|flagACK)})
	w.check(t, w.objects.AliothToPod, []verdictCase{receive("closed", flagFIN|flagACK)})
	w.check(t, w.objects.AliothFromPod, []verdictCase{send("opening again", flagSYN)})
	now := monotonic(t)
	if n, err := w.SweepConnections(now + closingIdle + 2*time.Second); n != 0 || err != nil {
		t.Errorf("sweep took the reopened flow for a closed one: %d, %v", n, err)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{send("closing again", flagFIN|flagACK)})
	w.check(t, w.objects.AliothToPod, []verdictCase{receive("closed again", flagFIN|flagACK)})
	if n, err := w.SweepConnections(now + closingIdle + 2*time.Second); n != 1 || err != nil {
		t.Errorf("sweep of the closed flow removed %d, %v, want 1", n, err)
	}
}

func TestAnErrorAboutAFlowToAServiceNamesTheService(t *testing.T) {
	w := newWorld(t)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("a query", w.podA, ask(udp{Sport: 1000, Dport: 53}), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadowA), Ip("10.8.1.10"), udp{Sport: 1000, Dport: 5353}
		}, state.MarkShared),
	})
	report := func(src, dst string, port uint16) icmp {
		f := frame{Src: Ip(src), Dst: Ip(dst), L4: udp{Sport: 1000, Dport: port, NoChecksum: true}}
		return icmp{Type: 3, Code: 3, Body: slices.Concat(make([]byte, 4), f.bytes()[14:])}
	}
	by := func(name, src, seen string) verdictCase {
		in := answer(shadowA, report(shadowA, "10.8.1.10", 5353)).with(func(f *frame) { f.Src = Ip(src) })
		return answered(name, w.podA, in, func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(seen), Ip("10.0.1.10"), report("10.0.1.10", "10.96.0.10", 53)
		})
	}
	w.check(t, w.objects.AliothToPod, []verdictCase{
		by("by the backend", "10.8.1.10", "10.96.0.10"),
		by("by a router on the way", "192.0.2.254", "192.0.2.254"),
	})
}

func TestARemovedInterfaceLeavesNoFlowToItsSuccessor(t *testing.T) {
	w := newWorld(t)
	query := toStack("a query", w.podA, ask(udp{Sport: 1000, Dport: 53}), func(f *frame) {
		f.Src, f.Dst, f.L4 = Ip(shadowA), Ip("10.8.1.10"), udp{Sport: 1000, Dport: 5353}
	}, state.MarkShared)
	w.check(t, w.objects.AliothFromPod, []verdictCase{query})
	without := w.state()
	without.Interfaces = slices.DeleteFunc(without.Interfaces, func(i state.Interface) bool { return i.Ifindex == w.podA })
	without.Addresses = slices.DeleteFunc(without.Addresses, func(a state.Address) bool { return a.Ifindex == w.podA })
	if err := w.Apply(without); err != nil {
		t.Fatal(err)
	}
	rows := map[bpf.AliothConnKey]bpf.AliothConn{}
	if err := bpf.ReadMap(w.objects.AliothConnections, rows); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[bpf.AliothConnKey]bpf.AliothConn{}, rows); d != "" {
		t.Errorf("flows of a removed interface (-want +got):\n%s", d)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("a packet of the device that has no row any more", w.podA, ask(udp{Sport: 1000, Dport: 53}).bytes(), "unknown_interface"),
	})
	if err := w.Apply(w.state()); err != nil {
		t.Fatal(err)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{query})
}

func TestAResetFlowThatIsReopenedIsNotTakenForAResetOne(t *testing.T) {
	w := newWorld(t)
	send := func(flags uint8) []byte { return ask(tcp{Sport: 1000, Dport: 53, Flags: flags}).bytes() }
	run(t, w.objects.AliothFromPod, w.podA, send(flagSYN))
	run(t, w.objects.AliothToPod, w.podA, answer(shadowA, tcp{Sport: 5353, Dport: 1000, Flags: flagRST | flagACK}).bytes())
	run(t, w.objects.AliothFromPod, w.podA, send(flagSYN))
	run(t, w.objects.AliothToPod, w.podA, answer(shadowA, tcp{Sport: 5353, Dport: 1000, Flags: flagSYN | flagACK}).bytes())
	if n, err := w.SweepConnections(monotonic(t) + closingIdle + 2*time.Second); n != 0 || err != nil {
		t.Errorf("sweep removed %d, %v", n, err)
	}
}

func TestFlowsToBackendsThatAreGoneEnd(t *testing.T) {
	w := newWorld(t)
	query := func(name string, l4, rewritten transport, backend string) verdictCase {
		return toStack(name, w.podA, ask(l4), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadowA), Ip(backend), rewritten
		}, state.MarkShared)
	}
	datagram := func(name, backend string) verdictCase {
		return query(name, udp{Sport: 1000, Dport: 53}, udp{Sport: 1000, Dport: 5353}, backend)
	}
	segment := func(name string, flags uint8, backend string) verdictCase {
		return query(name, tcp{Sport: 1000, Dport: 53, Flags: flags}, tcp{Sport: 1000, Dport: 5353, Flags: flags}, backend)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		datagram("UDP before", "10.8.1.10"), segment("TCP before", flagSYN, "10.8.1.10"),
	})
	s := w.state()
	s.Services[0].Backends = []state.Backend{{IP: Ip("10.8.1.11"), Port: 5353}}
	s.Services[1].Backends = []state.Backend{{IP: Ip("10.8.1.11"), Port: 5353}}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	late := answer(shadowA, udp{Sport: 5353, Dport: 1000})
	underWay := func(name string, out func(*frame)) { // an answer of the last backend
		t.Helper()
		w.check(t, w.objects.AliothToPod, []verdictCase{answered(name, w.podA, late, out)})
	}
	asService := func(f *frame) { f.Src, f.Dst, f.L4 = Ip("10.96.0.10"), Ip("10.0.1.10"), udp{Sport: 53, Dport: 1000} }
	underWay("an answer that was under way", asService)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		datagram("UDP goes to the new backend", "10.8.1.11"),
		segment("a TCP flow stays", flagACK, "10.8.1.10"),
	})
	underWay("an answer after that", asService)
	if n, err := w.SweepConnections(monotonic(t) + 2*time.Second); n != 1 || err != nil {
		t.Errorf("sweep removed %d, %v, want what is left of the flow to the last backend", n, err)
	}
	underWay("an answer long after", func(f *frame) { f.Dst = Ip("10.0.1.10") })
	s.Services = s.Services[:1]
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		datagram("UDP stays", "10.8.1.11"),
		dropped("TCP of a service that is gone", w.podA, ask(tcp{Sport: 1000, Dport: 53, Flags: flagACK}).bytes(), "service_port"),
	})
	rows, err := flowRows(w.objects.AliothConnections)
	if err != nil || len(rows) != 2 {
		t.Errorf("connections are %v, %v, want the UDP flow's two", rows, err)
	}
}

func TestATCPOpeningNeverGoesToABackendThatIsGone(t *testing.T) {
	w := newWorld(t)
	segment := func(name string, flags uint8, backend string) verdictCase {
		return toStack(name, w.podA, ask(tcp{Sport: 1000, Dport: 53, Flags: flags}), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadowA), Ip(backend), tcp{Sport: 1000, Dport: 5353, Flags: flags}
		}, state.MarkShared)
	}
	backends := func(hosts ...string) {
		t.Helper()
		s := w.state()
		s.Services[1].Backends = nil
		for _, h := range hosts {
			s.Services[1].Backends = append(s.Services[1].Backends, state.Backend{IP: Ip(h), Port: 5353})
		}
		if err := w.Apply(s); err != nil {
			t.Fatal(err)
		}
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{segment("the first opening", flagSYN, "10.8.1.10")})
	backends("10.8.1.2", "10.8.1.7", "10.8.1.9", "10.8.1.10", "10.8.1.11", "10.8.1.200", "10.9.0.1")
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		segment("an opening while the backend is one among others", flagSYN, "10.8.1.10"),
	})
	backends("10.8.1.11")
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		segment("data of the flow that was open", flagACK, "10.8.1.10"),
		segment("an opening of the same port", flagSYN, "10.8.1.11"),
		segment("data after it", flagACK, "10.8.1.11"),
	})
	w.check(t, w.objects.AliothToPod, []verdictCase{
		answered("what the former backend still sends", w.podA, answer(shadowA, tcp{Sport: 5353, Dport: 1000, Flags: flagACK}),
			func(f *frame) { f.Dst = Ip("10.0.1.10") }),
	})
	rows, err := flowRows(w.objects.AliothConnections)
	if err != nil || len(rows) != 2 {
		t.Errorf("connections are %v, %v, want one flow's two", rows, err)
	}
	backends()
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("an opening when no backend is left", w.podA, ask(tcp{Sport: 1000, Dport: 53, Flags: flagSYN}).bytes(), "no_backend"),
		dropped("data after it", w.podA, ask(tcp{Sport: 1000, Dport: 53, Flags: flagACK}).bytes(), "no_connection"),
	})
}

func TestAFlowThatIsOpenedAnewTakesNoSecondShare(t *testing.T) {
	w := newWorld(t) // with a share of 2
	opening := ask(tcp{Sport: 1000, Dport: 53, Flags: flagSYN}).bytes()
	for i := range 8 {
		s := w.state()
		s.Services[1].Backends = []state.Backend{{IP: Ip("10.8.1.10").Next(), Port: uint16(5353 + i)}}
		if err := w.Apply(s); err != nil {
			t.Fatal(err)
		}
		if verdict, _, _ := run(t, w.objects.AliothFromPod, w.podA, opening); verdict != actOK {
			t.Fatalf("verdict of opening %d is %d", i, verdict)
		}
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("the second flow", w.podA, ask(udp{Sport: 1001, Dport: 53}), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadowA), Ip("10.8.1.10"), udp{Sport: 1001, Dport: 5353}
		}, state.MarkShared),
		dropped("the third flow", w.podA, ask(udp{Sport: 1002, Dport: 53}).bytes(), "conn_limit"),
	})
}

func TestAnOpeningFindsItsBackendAmongMany(t *testing.T) {
	w := newWorld(t)
	s := w.state()
	s.Services[1].Backends = nil
	for i := range uint16(250) {
		s.Services[1].Backends = append(s.Services[1].Backends, state.Backend{IP: Ip("10.8.1.10"), Port: 256*(i%16) + i + 1})
	}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	for port := range uint16(100) {
		opening := ask(tcp{Sport: 1000 + port, Dport: 53, Flags: flagSYN}).bytes()
		_, first, _ := run(t, w.objects.AliothFromPod, w.podA, opening)
		if verdict, again, _ := run(t, w.objects.AliothFromPod, w.podA, opening); verdict != actOK || !slices.Equal(first, again) {
			t.Fatalf("flow %d: verdict %d, and the opening went to\n%x, its repetition to\n%x", port, verdict, first, again)
		}
		if _, err := w.SweepConnections(monotonic(t) + time.Hour); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullTableRefusesNewFlowsAndTakesNoShare(t *testing.T) {
	w := newWorld(t)
	room := int(w.objects.AliothConnections.MaxEntries())
	keys, rows := make([]bpf.AliothConnKey, room), make([]bpf.AliothConn, room)
	for i := range keys {
		keys[i] = bpf.AliothConnKey{Vni: uint32(i), Proto: state.ProtoUDP}
		rows[i] = bpf.AliothConn{LastSeen: 1}
	}
	if _, err := w.objects.AliothConnections.BatchUpdate(keys, rows, nil); err != nil {
		t.Fatal(err)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("a flow", w.podA, ask(udp{Sport: 1001, Dport: 53}).bytes(), "conn_full"),
		dropped("another flow", w.podA, ask(udp{Sport: 1002, Dport: 53}).bytes(), "conn_full"),
		dropped("more than the share", w.podA, ask(udp{Sport: 1003, Dport: 53}).bytes(), "conn_full"),
	})
	if n, err := w.SweepConnections(monotonic(t)); n != room || err != nil {
		t.Fatalf("sweep removed %d of %d, %v", n, room, err)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("a flow after the sweep", w.podA, ask(udp{Sport: 1001, Dport: 53}), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadowA), Ip("10.8.1.10"), udp{Sport: 1001, Dport: 5353}
		}, state.MarkShared),
	})
}

func TestFlowsAreSpreadOverAllBackends(t *testing.T) {
	w := newWorld(t)
	s := w.state()
	s.Services[0].Backends = []state.Backend{{IP: Ip("10.8.1.10"), Port: 5353}, {IP: Ip("10.8.1.11"), Port: 5353}, {IP: Ip("10.8.1.12"), Port: 5353}}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	picked := map[[4]byte]int{}
	for port := range uint16(64) {
		verdict, out, _ := run(t, w.objects.AliothFromPod, w.podA, ask(udp{Sport: 1000 + port, Dport: 53}).bytes())
		if verdict != actOK {
			t.Fatalf("verdict is %d", verdict)
		}
		picked[[4]byte(out[30:34])]++
		if _, err := w.SweepConnections(monotonic(t) + time.Hour); err != nil {
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
