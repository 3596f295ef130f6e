// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// watchFlows lets the programs tell of flows for longer than the test takes.
func (w *world) watchFlows(t *testing.T) *events {
	t.Helper()
	w.tellFlows(t, time.Hour)
	return w.readFlows(t)
}

// events are what programs report, together with the ring that they lie in.
type events struct {
	*telemetry.EventReader
	ring *ringbuf.Reader
}

func (w *world) readFlows(t *testing.T) *events {
	t.Helper()
	flows, err := w.Flows()
	Must(t, err)
	return readRing(t, flows, w.objects.AliothFlows)
}

func (w *world) readDrops(t *testing.T) *events {
	t.Helper()
	drops, err := w.Drops()
	Must(t, err)
	return readRing(t, drops, w.objects.AliothDrops)
}

func readRing(t *testing.T, reader *telemetry.EventReader, m *ebpf.Map) *events {
	t.Helper()
	t.Cleanup(func() { reader.Close() })
	ring, err := ringbuf.NewReader(m)
	Must(t, err)
	t.Cleanup(func() { ring.Close() })
	return &events{reader, ring}
}

// tellFlows lets the programs tell of flows for a time from now on.
func (w *world) tellFlows(t *testing.T, duration time.Duration) {
	t.Helper()
	now, err := MonotonicNow()
	Must(t, err)
	Must(t, w.TellFlows(now+duration))
}

// told returns what has been told since it was last asked for. A program has
// written all of its events when it ends.
func (r *events) told(t *testing.T) (list []telemetry.Event) {
	t.Helper()
	for r.ring.AvailableBytes() > 0 {
		event, err := r.Read()
		Must(t, err)
		if event.Time == 0 {
			t.Errorf("%+v has no time", event)
		}
		event.Time = 0
		list = append(list, event)
	}
	return list
}

// toRemote is a packet of pod A to a pod of another node.
func toRemote(dst string) frame {
	if Ip(dst).Is6() {
		return fromA6(func(f *frame) { f.Dst = Ip(dst) })
	}
	return fromA(func(f *frame) { f.Dst = Ip(dst) })
}

func TestAFlowIsToldWithBothItsEndsAndItsNodes(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	flows := w.watchFlows(t)
	inner := frame{EthDst: MacA, EthSrc: macR, Src: Ip("10.0.1.20"), Dst: Ip("10.0.1.10"), L4: udp{Sport: 7, Dport: 8}}
	wrapped := wrapped{
		eth: macUplink, from: Ip("192.0.2.2"), to: Ip("192.0.2.1"), port: programs.DefaultTunnelPort, flags: 8, vni: vniRed, inner: inner.bytes(),
	}
	later := fromA(func(f *frame) { f.Fragment, f.L4 = &fragment{185, false}, raw{state.ProtoUDP, []byte("the rest")} })
	fromA := fromA(unchanged)
	for _, c := range []struct {
		name    string
		program *ebpf.Program
		device  int
		in      []byte
		want    telemetry.Event
	}{
		{"to a pod of this node", w.objects.AliothFromPod, w.podA, fromA.bytes(), telemetry.Event{
			VNI: vniRed, Reason: telemetry.ForwardedLocal, Direction: telemetry.FromPod, Proto: state.ProtoTCP,
			Came: telemetry.Tuple{Src: Ip("10.0.1.10"), Dst: Ip("10.0.1.11"), Sport: 1000, Dport: 80},
		}},
		{"the same by IPv6", w.objects.AliothFromPod, w.podA, fromA6(unchanged).bytes(), telemetry.Event{
			VNI: vniRed, Reason: telemetry.ForwardedLocal, Direction: telemetry.FromPod, Proto: state.ProtoTCP,
			Came: telemetry.Tuple{Src: Ip("fd10:0:0:1::10"), Dst: Ip("fd10:0:0:1::11"), Sport: 1000, Dport: 80},
		}},
		{"a later fragment", w.objects.AliothFromPod, w.podA, later.bytes(), telemetry.Event{
			VNI: vniRed, Reason: telemetry.ForwardedLocal, Direction: telemetry.FromPod, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: Ip("10.0.1.10"), Dst: Ip("10.0.1.11")},
		}},
		{"to another node, with outer headers", w.objects.AliothFromPod, w.podA, toRemote("10.0.1.20").bytes(), telemetry.Event{
			VNI: vniRed, Reason: telemetry.ForwardedRemote, Direction: telemetry.FromPod, Proto: state.ProtoTCP,
			Came: telemetry.Tuple{Src: Ip("10.0.1.10"), Dst: Ip("10.0.1.20"), Sport: 1000, Dport: 80}, OuterSrc: Ip("192.0.2.1"), OuterDst: Ip("192.0.2.2"),
		}},
		{"to another node, by the tunnel's device", w.objects.AliothFromPod, w.podA, toRemote("fd10:0:0:1::20").bytes(), telemetry.Event{
			VNI: vniRed, Reason: telemetry.ForwardedRemote, Direction: telemetry.FromPod, Proto: state.ProtoTCP,
			Came:     telemetry.Tuple{Src: Ip("fd10:0:0:1::10"), Dst: Ip("fd10:0:0:1::20"), Sport: 1000, Dport: 80},
			OuterSrc: Ip("2001:db8::1"), OuterDst: Ip("2001:db8::2"),
		}},
		{"to a shared service", w.objects.AliothFromPod, w.podA, ask(udp{Sport: 1000, Dport: 53}).bytes(), telemetry.Event{
			VNI: vniRed, Reason: telemetry.ToStack, Direction: telemetry.FromPod, Proto: state.ProtoUDP, PacketMark: state.MarkShared,
			Came: telemetry.Tuple{Src: Ip("10.0.1.10"), Dst: Ip("10.96.0.10"), Sport: 1000, Dport: 53}, Went: telemetry.Tuple{Src: Ip(shadowA), Dst: Ip("10.8.1.10"), Sport: 1000, Dport: 5353},
		}},
		{"its answer", w.objects.AliothToPod, w.podA, answer(shadowA, udp{Sport: 5353, Dport: 1000}).bytes(), telemetry.Event{
			VNI: vniRed, Reason: telemetry.FromStack, Direction: telemetry.ToPod, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: Ip("10.8.1.10"), Dst: Ip(shadowA), Sport: 5353, Dport: 1000}, Went: telemetry.Tuple{Src: Ip("10.96.0.10"), Dst: Ip("10.0.1.10"), Sport: 53, Dport: 1000},
		}},
		{"from another node", w.objects.AliothFromUnderlay, w.cfg.UnderlayIfindex, wrapped.bytes(), telemetry.Event{
			VNI: vniRed, Reason: telemetry.ForwardedLocal, Direction: telemetry.FromTunnel, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: Ip("10.0.1.20"), Dst: Ip("10.0.1.10"), Sport: 7, Dport: 8}, OuterSrc: Ip("192.0.2.2"), OuterDst: Ip("192.0.2.1"),
		}},
		{"from another node, by the tunnel's device", tunnelled(t, w, vniRed, Ip("2001:db8::2")), w.podA, inner.bytes(), telemetry.Event{
			VNI: vniRed, Reason: telemetry.ForwardedLocal, Direction: telemetry.FromTunnel, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: Ip("10.0.1.20"), Dst: Ip("10.0.1.10"), Sport: 7, Dport: 8}, OuterSrc: Ip("2001:db8::2"),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			enter(t, w.ns)
			run(t, c.program, c.device, c.in)
			c.want.Ifindex = c.device
			if c.want.Means() == "" {
				t.Errorf("there are no words for %s", c.want.Reason)
			}
			if d := cmp.Diff([]telemetry.Event{c.want}, flows.told(t), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
				t.Errorf("told (-want +got):\n%s", d)
			}
		})
	}
}

func TestAFlowToAServiceOfItsVPCIsToldAsItCameAndAsItWent(t *testing.T) {
	w := newScaledWorld(t, onUnderlay(t))
	flows := w.watchFlows(t)
	run(t, w.objects.AliothFromPod, w.podA, asks(vipB, udp{Sport: 1000, Dport: 53}).bytes()) // to another node
	run(t, w.objects.AliothFromPod, w.podA, asks(vipB, tcp{Sport: 1000, Dport: 80, Flags: flagSYN}).bytes())
	run(t, w.objects.AliothFromPod, w.podB, says(tcp{Sport: 8080, Dport: 1000, Flags: flagSYN | flagACK}).bytes())
	a, b, vip := Ip("10.0.1.10"), Ip("10.0.1.11"), Ip(vipB)
	want := []telemetry.Event{
		{
			VNI: vniRed, Ifindex: w.podA, Reason: telemetry.ForwardedRemote, Proto: state.ProtoUDP, Came: telemetry.Tuple{Src: a, Dst: vip, Sport: 1000, Dport: 53}, Went: telemetry.Tuple{Src: a, Dst: Ip("10.0.1.20"), Sport: 1000, Dport: 5353},
			OuterSrc: Ip("192.0.2.1"), OuterDst: Ip("192.0.2.2"),
		},
		{VNI: vniRed, Ifindex: w.podA, Reason: telemetry.ForwardedLocal, Proto: state.ProtoTCP, Came: telemetry.Tuple{Src: a, Dst: vip, Sport: 1000, Dport: 80}, Went: telemetry.Tuple{Src: a, Dst: b, Sport: 1000, Dport: 8080}},
		{VNI: vniRed, Ifindex: w.podB, Reason: telemetry.ForwardedLocal, Proto: state.ProtoTCP, Came: telemetry.Tuple{Src: b, Dst: a, Sport: 8080, Dport: 1000}, Went: telemetry.Tuple{Src: vip, Dst: a, Sport: 80, Dport: 1000}},
	}
	if d := cmp.Diff(want, flows.told(t), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("told (-want +got):\n%s", d)
	}
}

func TestWhatDoesNotPassIsNoFlow(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	flows := w.watchFlows(t)
	inner := func(src, dst string) []byte {
		return frame{EthDst: MacA, EthSrc: macR, Src: Ip(src), Dst: Ip(dst), L4: udp{Sport: 7, Dport: 8}}.bytes()
	}
	for name, c := range map[string]struct {
		program *ebpf.Program
		in      []byte
	}{
		"under another pod's address":      {w.objects.AliothFromPod, fromA(func(f *frame) { f.Src, f.Dst = Ip("10.0.1.11"), Ip("10.0.1.20") }).bytes()},
		"under another pod's MAC":          {w.objects.AliothFromPod, fromA(func(f *frame) { f.EthSrc = MacB }).bytes()},
		"to nobody":                        {w.objects.AliothFromPod, fromA(func(f *frame) { f.Dst = Ip("10.0.1.99") }).bytes()},
		"from no node":                     {tunnelled(t, w, vniRed, Ip("192.0.2.66")), inner("10.0.1.20", "10.0.1.10")},
		"under the address of a local pod": {tunnelled(t, w, vniRed, Ip("192.0.2.2")), inner("10.0.1.11", "10.0.1.10")},
		"of a VPC that is not here":        {tunnelled(t, w, 999, Ip("192.0.2.2")), inner("10.0.1.20", "10.0.1.10")},
		"to a shadow that is another's":    {w.objects.AliothToPod, answer("169.254.64.99", udp{Sport: 53, Dport: 9}).bytes()},
		"to a gateway, which answers": {w.objects.AliothFromPod, fromA(func(f *frame) {
			f.Dst, f.L4 = Ip("10.0.1.1"), icmp{Type: 8, Body: make([]byte, 8)}
		}).bytes()},
	} {
		t.Run(name, func(t *testing.T) {
			enter(t, w.ns)
			run(t, c.program, w.podA, c.in)
			if told := flows.told(t); len(told) > 0 {
				t.Errorf("told %+v", told)
			}
		})
	}
}

func TestAFlowIsToldOnceInAWhile(t *testing.T) {
	w := newWorld(t)
	flows := w.watchFlows(t)
	packet := func(sport uint16, flags uint8) []byte {
		return fromA(func(f *frame) { f.L4 = tcp{Sport: sport, Dport: 80, Flags: flags} }).bytes()
	}
	one := func(what string, want int) {
		t.Helper()
		if told := flows.told(t); len(told) != want {
			t.Errorf("%s: told %d times, want %d: %+v", what, len(told), want, told)
		}
	}
	run(t, w.objects.AliothFromPod, w.podA, packet(1000, flagSYN))
	one("its first packet", 1)
	run(t, w.objects.AliothFromPod, w.podA, packet(1000, flagACK))
	one("its second packet", 0)
	run(t, w.objects.AliothFromPod, w.podA, packet(1001, flagSYN))
	one("another flow", 1)

	// As if it had been told long ago.
	var key bpf.AliothFlow
	var last uint64
	for rows := w.objects.AliothFlowGate.Iterate(); rows.Next(&key, &last); {
		Must(t, w.objects.AliothFlowGate.Put(key, last-uint64(11*time.Second)))
	}
	run(t, w.objects.AliothFromPod, w.podA, packet(1000, flagACK))
	one("after ten seconds", 1)

	// The pod that it goes to moves to another node, so that it ends elsewhere.
	s := w.state()
	at := slices.IndexFunc(s.Addresses, func(a state.Address) bool { return a.VNI == vniRed && a.IP == Ip("10.0.1.11") })
	s.Addresses[at] = state.Address{VNI: vniRed, IP: Ip("10.0.1.11"), Kind: state.Remote, Node: Ip("192.0.2.2"), MAC: macR}
	Must(t, w.Apply(s))
	run(t, w.objects.AliothFromPod, w.podA, packet(1000, flagACK))
	one("on another way", 1)
}

func TestEqualFlowsOfTwoVPCsAreTwo(t *testing.T) {
	w := newWorld(t)
	flows := w.watchFlows(t)
	for _, device := range []int{w.podA, w.twin} {
		run(t, w.objects.AliothFromPod, device, ask(udp{Sport: 1000, Dport: 53}).bytes())
	}
	told := flows.told(t)
	if len(told) != 2 || told[0].VNI != vniRed || told[1].VNI != vniBlue || told[0].Went.Src == told[1].Went.Src {
		t.Errorf("told %+v", told)
	}
}

func TestFlowsAreToldOnlyWhileSomebodyAsks(t *testing.T) {
	w := newWorld(t)
	flows := w.readFlows(t)
	packet := fromA(unchanged).bytes()
	expect := func(when string, want int) {
		t.Helper()
		run(t, w.objects.AliothFromPod, w.podA, packet)
		if told := flows.told(t); len(told) != want {
			t.Errorf("%s: told %+v, want %d", when, told, want)
		}
	}
	expect("nobody has asked", 0)
	w.tellFlows(t, -time.Second)
	expect("who has asked is gone", 0)
	var until uint64
	if Must(t, w.objects.AliothFlowsUntil.Get(&until)); until != 0 {
		t.Errorf("packets look at the clock until %d, for nobody", until)
	}
	w.tellFlows(t, time.Hour)
	// A trial's packet passes nowhere.
	if _, err := w.TryFromPod(w.podA, packet); err != nil {
		t.Fatal(err)
	}
	if told := flows.told(t); len(told) > 0 {
		t.Errorf("a trial has told %+v", told)
	}
	expect("somebody asks", 1)
}

func TestAPodWithVeryManyFlowsLeavesRoomForOthers(t *testing.T) {
	w := newWorld(t)
	flows := w.watchFlows(t)
	began := time.Now()
	const opened = 400
	for port := range uint16(opened) {
		run(t, w.objects.AliothFromPod, w.podA, fromA(func(f *frame) { f.L4 = udp{Sport: 1000 + port, Dport: 80} }).bytes())
	}
	told := len(flows.told(t))
	if most := 101 + int(time.Since(began).Seconds()*20); told < 100 || told > most {
		t.Errorf("%d of %d flows were told, want 100 to %d", told, opened, most)
	}
	fromB := fromA(func(f *frame) { f.EthSrc, f.Src, f.Dst = MacB, Ip("10.0.1.11"), Ip("10.0.1.10") }).bytes()
	run(t, w.objects.AliothFromPod, w.podB, fromB)
	if told := flows.told(t); len(told) != 1 || told[0].Ifindex != w.podB {
		t.Errorf("of the other pod, told %+v", told)
	}
}
