// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

func readDrops(t *testing.T, w *world.World) *world.Events {
	t.Helper()
	drops, err := w.Drops()
	bpftest.Must(t, err)
	return world.ReadRing(t, drops, w.Objects.AliothDrops)
}

// toRemote returns a packet of pod A to a pod of another node.
func toRemote(dst string) wire.Frame {
	if wire.IP(dst).Is6() {
		return world.FromA6(func(f *wire.Frame) { f.Dst = wire.IP(dst) })
	}
	return world.FromA(func(f *wire.Frame) { f.Dst = wire.IP(dst) })
}

func TestFlowEvent_NewFlow_HasEndsAndNodes(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	flows := w.WatchFlows(t)
	inner := wire.Frame{EthDst: world.MacA, EthSrc: world.MacR, Src: wire.IP("10.0.1.20"), Dst: wire.IP("10.0.1.10"), L4: wire.UDP{Sport: 7, Dport: 8}}
	wrapped := world.Wrapped{
		Eth: world.MacUplink, From: wire.IP("192.0.2.2"), To: wire.IP("192.0.2.1"), Port: programs.DefaultTunnelPort, Flags: 8, VNI: world.VNIRed, Inner: inner.Bytes(),
	}
	later := world.FromA(func(f *wire.Frame) {
		f.Fragment, f.L4 = &wire.Fragment{Offset: 185, More: false}, wire.Raw{Proto: state.ProtoUDP, Data: []byte("the rest")}
	})
	fromA := world.FromA(world.Unchanged)
	for _, c := range []struct {
		name    string
		program *ebpf.Program
		device  int
		in      []byte
		want    telemetry.Event
	}{
		{"to a pod of this node", w.Objects.AliothFromPod, w.PodA, fromA.Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: telemetry.ForwardedLocal, Direction: telemetry.FromPod, Proto: state.ProtoTCP,
			Came: telemetry.Tuple{Src: wire.IP("10.0.1.10"), Dst: wire.IP("10.0.1.11"), Sport: 1000, Dport: 80},
		}},
		{"the same by IPv6", w.Objects.AliothFromPod, w.PodA, world.FromA6(world.Unchanged).Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: telemetry.ForwardedLocal, Direction: telemetry.FromPod, Proto: state.ProtoTCP,
			Came: telemetry.Tuple{Src: wire.IP("fd10:0:0:1::10"), Dst: wire.IP("fd10:0:0:1::11"), Sport: 1000, Dport: 80},
		}},
		{"a later fragment", w.Objects.AliothFromPod, w.PodA, later.Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: telemetry.ForwardedLocal, Direction: telemetry.FromPod, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: wire.IP("10.0.1.10"), Dst: wire.IP("10.0.1.11")},
		}},
		{"to another node, with outer headers", w.Objects.AliothFromPod, w.PodA, toRemote("10.0.1.20").Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: telemetry.ForwardedRemote, Direction: telemetry.FromPod, Proto: state.ProtoTCP,
			Came: telemetry.Tuple{Src: wire.IP("10.0.1.10"), Dst: wire.IP("10.0.1.20"), Sport: 1000, Dport: 80}, OuterSrc: wire.IP("192.0.2.1"), OuterDst: wire.IP("192.0.2.2"),
		}},
		{"to another node, by the tunnel's device", w.Objects.AliothFromPod, w.PodA, toRemote("fd10:0:0:1::20").Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: telemetry.ForwardedRemote, Direction: telemetry.FromPod, Proto: state.ProtoTCP,
			Came:     telemetry.Tuple{Src: wire.IP("fd10:0:0:1::10"), Dst: wire.IP("fd10:0:0:1::20"), Sport: 1000, Dport: 80},
			OuterSrc: wire.IP("2001:db8::1"), OuterDst: wire.IP("2001:db8::2"),
		}},
		{"to a shared service", w.Objects.AliothFromPod, w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53}).Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: telemetry.ToStack, Direction: telemetry.FromPod, Proto: state.ProtoUDP, PacketMark: state.MarkShared,
			Came: telemetry.Tuple{Src: wire.IP("10.0.1.10"), Dst: wire.IP("10.96.0.10"), Sport: 1000, Dport: 53},
			Went: telemetry.Tuple{Src: wire.IP(world.ShadowA), Dst: wire.IP("10.8.1.10"), Sport: 1000, Dport: 5353},
		}},
		{"its answer", w.Objects.AliothToPod, w.PodA, world.Answer(world.ShadowA, wire.UDP{Sport: 5353, Dport: 1000}).Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: telemetry.FromStack, Direction: telemetry.ToPod, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: wire.IP("10.8.1.10"), Dst: wire.IP(world.ShadowA), Sport: 5353, Dport: 1000},
			Went: telemetry.Tuple{Src: wire.IP("10.96.0.10"), Dst: wire.IP("10.0.1.10"), Sport: 53, Dport: 1000},
		}},
		{"from another node", w.Objects.AliothFromUnderlay, w.Config.UnderlayIfindex, wrapped.Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: telemetry.ForwardedLocal, Direction: telemetry.FromTunnel, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: wire.IP("10.0.1.20"), Dst: wire.IP("10.0.1.10"), Sport: 7, Dport: 8}, OuterSrc: wire.IP("192.0.2.2"), OuterDst: wire.IP("192.0.2.1"),
		}},
		{"from another node, by the tunnel's device", world.Tunnelled(t, w, world.VNIRed, wire.IP("2001:db8::2")), w.PodA, inner.Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: telemetry.ForwardedLocal, Direction: telemetry.FromTunnel, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: wire.IP("10.0.1.20"), Dst: wire.IP("10.0.1.10"), Sport: 7, Dport: 8}, OuterSrc: wire.IP("2001:db8::2"),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			world.Run(t, c.program, c.device, c.in)
			c.want.Ifindex = c.device
			if c.want.Means() == "" {
				t.Errorf("there are no words for %s", c.want.Reason)
			}
			if d := cmp.Diff([]telemetry.Event{c.want}, flows.Told(t), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
				t.Errorf("told (-want +got):\n%s", d)
			}
		})
	}
}

func TestFlowEvent_ServiceFlow_HasBothForms(t *testing.T) {
	w := world.NewScaled(t, world.OnUnderlay(t))
	flows := w.WatchFlows(t)
	world.Run(t, w.Objects.AliothFromPod, w.PodA, world.Asks(world.VIPB, wire.UDP{Sport: 1000, Dport: 53}).Bytes()) // to another node
	world.Run(t, w.Objects.AliothFromPod, w.PodA, world.Asks(world.VIPB, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN}).Bytes())
	world.Run(t, w.Objects.AliothFromPod, w.PodB, world.Says(wire.TCP{Sport: 8080, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK}).Bytes())
	a, b, vip := wire.IP("10.0.1.10"), wire.IP("10.0.1.11"), wire.IP(world.VIPB)
	want := []telemetry.Event{
		{
			VNI:      world.VNIRed,
			Ifindex:  w.PodA,
			Reason:   telemetry.ForwardedRemote,
			Proto:    state.ProtoUDP,
			Came:     telemetry.Tuple{Src: a, Dst: vip, Sport: 1000, Dport: 53},
			Went:     telemetry.Tuple{Src: a, Dst: wire.IP("10.0.1.20"), Sport: 1000, Dport: 5353},
			OuterSrc: wire.IP("192.0.2.1"),
			OuterDst: wire.IP("192.0.2.2"),
		},
		{
			VNI:     world.VNIRed,
			Ifindex: w.PodA,
			Reason:  telemetry.ForwardedLocal,
			Proto:   state.ProtoTCP,
			Came:    telemetry.Tuple{Src: a, Dst: vip, Sport: 1000, Dport: 80},
			Went:    telemetry.Tuple{Src: a, Dst: b, Sport: 1000, Dport: 8080},
		},
		{
			VNI:     world.VNIRed,
			Ifindex: w.PodB,
			Reason:  telemetry.ForwardedLocal,
			Proto:   state.ProtoTCP,
			Came:    telemetry.Tuple{Src: b, Dst: a, Sport: 8080, Dport: 1000},
			Went:    telemetry.Tuple{Src: vip, Dst: a, Sport: 80, Dport: 1000},
		},
	}
	if d := cmp.Diff(want, flows.Told(t), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("told (-want +got):\n%s", d)
	}
}

func TestFlowEvent_DroppedPacket_None(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	flows := w.WatchFlows(t)
	inner := func(src, dst string) []byte {
		return wire.Frame{EthDst: world.MacA, EthSrc: world.MacR, Src: wire.IP(src), Dst: wire.IP(dst), L4: wire.UDP{Sport: 7, Dport: 8}}.Bytes()
	}
	for name, c := range map[string]struct {
		program *ebpf.Program
		in      []byte
	}{
		"under another pod's address":      {w.Objects.AliothFromPod, world.FromA(func(f *wire.Frame) { f.Src, f.Dst = wire.IP("10.0.1.11"), wire.IP("10.0.1.20") }).Bytes()},
		"under another pod's MAC":          {w.Objects.AliothFromPod, world.FromA(func(f *wire.Frame) { f.EthSrc = world.MacB }).Bytes()},
		"to nobody":                        {w.Objects.AliothFromPod, world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") }).Bytes()},
		"from no node":                     {world.Tunnelled(t, w, world.VNIRed, wire.IP("192.0.2.66")), inner("10.0.1.20", "10.0.1.10")},
		"under the address of a local pod": {world.Tunnelled(t, w, world.VNIRed, wire.IP("192.0.2.2")), inner("10.0.1.11", "10.0.1.10")},
		"of a VPC that is not here":        {world.Tunnelled(t, w, 999, wire.IP("192.0.2.2")), inner("10.0.1.20", "10.0.1.10")},
		"to a shadow that is another's":    {w.Objects.AliothToPod, world.Answer("169.254.64.99", wire.UDP{Sport: 53, Dport: 9}).Bytes()},
		"to a gateway, which answers": {w.Objects.AliothFromPod, world.FromA(func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP("10.0.1.1"), wire.ICMP{Type: 8, Body: make([]byte, 8)}
		}).Bytes()},
	} {
		t.Run(name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			world.Run(t, c.program, w.PodA, c.in)
			if reported := flows.Told(t); len(reported) > 0 {
				t.Errorf("told %+v", reported)
			}
		})
	}
}

func TestFlowEvent_RepeatedPackets_OncePerInterval(t *testing.T) {
	w := world.New(t)
	flows := w.WatchFlows(t)
	packet := func(sport uint16, flags uint8) []byte {
		return world.FromA(func(f *wire.Frame) { f.L4 = wire.TCP{Sport: sport, Dport: 80, Flags: flags} }).Bytes()
	}
	one := func(what string, want int) {
		t.Helper()
		if reported := flows.Told(t); len(reported) != want {
			t.Errorf("%s: told %d times, want %d: %+v", what, len(reported), want, reported)
		}
	}
	world.Run(t, w.Objects.AliothFromPod, w.PodA, packet(1000, wire.FlagSYN))
	one("its first packet", 1)
	world.Run(t, w.Objects.AliothFromPod, w.PodA, packet(1000, wire.FlagACK))
	one("its second packet", 0)
	world.Run(t, w.Objects.AliothFromPod, w.PodA, packet(1001, wire.FlagSYN))
	one("another flow", 1)

	// As if it had been told long ago.
	var key bpf.AliothFlow
	var last uint64
	for rows := w.Objects.AliothFlowGate.Iterate(); rows.Next(&key, &last); {
		bpftest.Must(t, w.Objects.AliothFlowGate.Put(key, last-uint64(11*time.Second)))
	}
	world.Run(t, w.Objects.AliothFromPod, w.PodA, packet(1000, wire.FlagACK))
	one("after ten seconds", 1)

	// The pod that the flow goes to moves to another node, so the flow ends elsewhere.
	s := w.State()
	at := slices.IndexFunc(s.Addresses, func(a state.Address) bool { return a.VNI == world.VNIRed && a.IP == wire.IP("10.0.1.11") })
	s.Addresses[at] = state.Address{VNI: world.VNIRed, IP: wire.IP("10.0.1.11"), Kind: state.Remote, Node: wire.IP("192.0.2.2"), MAC: world.MacR}
	bpftest.Must(t, w.Apply(s))
	world.Run(t, w.Objects.AliothFromPod, w.PodA, packet(1000, wire.FlagACK))
	one("on another way", 1)
}

func TestFlowEvent_EqualFlowsInTwoVPCs_Two(t *testing.T) {
	w := world.New(t)
	flows := w.WatchFlows(t)
	for _, device := range []int{w.PodA, w.Twin} {
		world.Run(t, w.Objects.AliothFromPod, device, world.Ask(wire.UDP{Sport: 1000, Dport: 53}).Bytes())
	}
	reported := flows.Told(t)
	if len(reported) != 2 || reported[0].VNI != world.VNIRed || reported[1].VNI != world.VNIBlue || reported[0].Went.Src == reported[1].Went.Src {
		t.Errorf("told %+v", reported)
	}
}

func TestFlowEvents_NoReader_None(t *testing.T) {
	w := world.New(t)
	flows := w.ReadFlows(t)
	packet := world.FromA(world.Unchanged).Bytes()
	expect := func(when string, want int) {
		t.Helper()
		world.Run(t, w.Objects.AliothFromPod, w.PodA, packet)
		if reported := flows.Told(t); len(reported) != want {
			t.Errorf("%s: told %+v, want %d", when, reported, want)
		}
	}
	expect("nobody has asked", 0)
	w.TellFlowsFor(t, -time.Second)
	expect("who has asked is gone", 0)
	var until uint64
	if bpftest.Must(t, w.Objects.AliothFlowsUntil.Get(&until)); until != 0 {
		t.Errorf("packets look at the clock until %d, for nobody", until)
	}
	w.TellFlowsFor(t, time.Hour)
	// A trial's packet passes nowhere.
	if _, err := w.TryFromPod(w.PodA, packet); err != nil {
		t.Fatal(err)
	}
	if reported := flows.Told(t); len(reported) > 0 {
		t.Errorf("a trial has told %+v", reported)
	}
	expect("somebody asks", 1)
}

func TestFlowEvents_PodFloods_OthersKeepRoom(t *testing.T) {
	w := world.New(t)
	flows := w.WatchFlows(t)
	began := time.Now()
	const opened = 400
	for port := range uint16(opened) {
		world.Run(t, w.Objects.AliothFromPod, w.PodA, world.FromA(func(f *wire.Frame) { f.L4 = wire.UDP{Sport: 1000 + port, Dport: 80} }).Bytes())
	}
	reported := len(flows.Told(t))
	if most := 101 + int(time.Since(began).Seconds()*20); reported < 100 || reported > most {
		t.Errorf("%d of %d flows were told, want 100 to %d", reported, opened, most)
	}
	fromB := world.FromA(func(f *wire.Frame) { f.EthSrc, f.Src, f.Dst = world.MacB, wire.IP("10.0.1.11"), wire.IP("10.0.1.10") }).Bytes()
	world.Run(t, w.Objects.AliothFromPod, w.PodB, fromB)
	if reported := flows.Told(t); len(reported) != 1 || reported[0].Ifindex != w.PodB {
		t.Errorf("of the other pod, told %+v", reported)
	}
}
