// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

func sweep(t *testing.T, d *bpftest.Datapath) {
	t.Helper()
	if err := d.SweepDropCounters(); err != nil {
		t.Fatal(err)
	}
}

func TestDrops_InterfaceAndVPC_CountedSeparately(t *testing.T) {
	w := world.New(t)
	lost := world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") }).Bytes()
	for _, device := range []int{w.PodA, w.PodA, w.Twin} {
		world.Run(t, w.Objects.AliothFromPod, device, lost)
	}
	world.Run(t, w.Objects.AliothFromPod, w.PodA, world.FromA(world.Unchanged).Bytes()) // goes on
	world.Run(t, w.Objects.AliothFromPod, 1, lost)                                      // no interface
	world.Run(t, w.Objects.AliothToPod, w.PodB, lost)
	want := map[string]uint64{
		fmt.Sprintf("%d %d from_pod/no_endpoint", w.PodA, world.VNIRed): 2,
		fmt.Sprintf("%d %d from_pod/no_subnet", w.Twin, world.VNIBlue):  1,
		fmt.Sprintf("%d %d to_pod/not_shadow", w.PodB, world.VNIRed):    1,
		"1 0 from_pod/unknown_interface":                                1,
	}
	if d := cmp.Diff(want, bpftest.Whose(t, w.Datapath)); d != "" {
		t.Errorf("drops (-want +got):\n%s", d)
	}
}

func TestDropCounters_TunnelPacketContents_NoNewKey(t *testing.T) {
	w := world.New(t)
	inner := wire.Frame{
		EthDst: world.MacA,
		EthSrc: world.ClassReturned,
		Src:    wire.IP("10.0.1.20"),
		Dst:    wire.IP("10.0.1.99"),
		L4:     wire.UDP{Sport: 1, Dport: 2},
	}.Bytes()
	for vni := uint32(1000); vni < 1100; vni++ {
		world.Run(t, world.Tunnelled(t, w, vni, wire.IP("192.0.2.2")), w.PodA, inner)
		world.Run(t, world.Tunnelled(t, w, vni, wire.IP("192.0.2.66")), w.PodA, inner)
	}
	world.Run(t, world.Tunnelled(t, w, world.VNIRed, wire.IP("192.0.2.66")), w.PodA, inner)
	world.Run(t, world.Tunnelled(t, w, world.VNIRed, wire.IP("192.0.2.2")), w.PodA, inner)
	want := map[string]uint64{
		fmt.Sprintf("%d 0 from_tunnel/unknown_vni", w.PodA):                     100,
		fmt.Sprintf("%d 0 from_tunnel/unknown_node", w.PodA):                    100,
		fmt.Sprintf("%d %d from_tunnel/unknown_node", w.PodA, world.VNIRed):     1,
		fmt.Sprintf("%d %d from_tunnel/returned_foreign", w.PodA, world.VNIRed): 1,
	}
	if d := cmp.Diff(want, bpftest.Whose(t, w.Datapath)); d != "" {
		t.Errorf("drops (-want +got):\n%s", d)
	}
}

func TestDropCounters_Full_DropStillCounted(t *testing.T) {
	w := world.New(t)
	m := w.Objects.AliothDropCounters
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]bpf.AliothDropKey, m.MaxEntries())
	for i := range keys {
		keys[i] = bpf.AliothDropKey{Ifindex: 1 << 20, Vni: uint32(i)}
	}
	// The kernel keeps some rows ready and makes more on the side: a large number at once may find
	// none, and then go on where they were.
	for end := time.Now().Add(bpftest.Patience); len(keys) > 0; {
		n, err := m.BatchUpdate(keys, make([]bpf.AliothCounter, len(keys)*cpus), nil)
		if err != nil && (!errors.Is(err, unix.ENOMEM) || time.Now().After(end)) {
			t.Fatal(err)
		}
		keys = keys[n:]
	}
	lost := world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") }).Bytes()
	before := bpftest.Counts(t, w.Datapath)
	if verdict, _, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, lost); verdict != world.ActShot {
		t.Errorf("verdict is %d", verdict)
	}
	if d := cmp.Diff(world.One("from_pod/no_endpoint"), bpftest.Added(before, bpftest.Counts(t, w.Datapath))); d != "" {
		t.Errorf("counters (-want +got):\n%s", d)
	}
	if n := bpftest.CountedTwice(t, w.Datapath)["from_pod/no_endpoint"]; n != 0 {
		t.Errorf("a full table has taken %d more", n)
	}
	// The rows are for an interface that does not exist, so a sweep removes them.
	sweep(t, w.Datapath)
	world.Run(t, w.Objects.AliothFromPod, w.PodA, lost)
	if n := bpftest.CountedTwice(t, w.Datapath)["from_pod/no_endpoint"]; n != 1 {
		t.Errorf("after the sweep, %d were counted, want 1", n)
	}
}

func TestDropCounters_InterfaceGone_StayWithVPC(t *testing.T) {
	w := world.New(t)
	lost := world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") }).Bytes()
	own := func(ifindex int) string { return fmt.Sprintf("%d %d from_pod/no_endpoint", ifindex, world.VNIRed) }
	expect := func(when string, want map[string]uint64) {
		t.Helper()
		sweep(t, w.Datapath)
		if d := cmp.Diff(want, bpftest.Whose(t, w.Datapath)); d != "" {
			t.Errorf("%s (-want +got):\n%s", when, d)
		}
	}
	world.Run(t, w.Objects.AliothFromPod, w.PodA, lost)
	world.Run(t, w.Objects.AliothFromPod, w.PodA, lost)
	expect("while the interface is there", map[string]uint64{own(w.PodA): 2})

	s := w.State()
	without := func(ifindex int) {
		s.Interfaces = slices.DeleteFunc(s.Interfaces, func(i state.Interface) bool { return i.Ifindex == ifindex })
		s.Addresses = slices.DeleteFunc(s.Addresses, func(a state.Address) bool { return a.Ifindex == ifindex })
		if err := w.Apply(s); err != nil {
			t.Fatal(err)
		}
	}
	fromB := bytes.Clone(lost)
	copy(fromB[6:], world.MacB[:])
	copy(fromB[26:], []byte{10, 0, 1, 11})
	world.Run(t, w.Objects.AliothFromPod, w.PodB, fromB)
	without(w.PodA)
	expect("when it has gone", map[string]uint64{own(0): 2, own(w.PodB): 1})
	without(w.PodB)
	expect("when another one has gone", map[string]uint64{own(0): 3})

	s.VPCs = slices.DeleteFunc(s.VPCs, func(v state.VPC) bool { return v.VNI == world.VNIRed })
	s.Subnets = slices.DeleteFunc(s.Subnets, func(n state.Subnet) bool { return n.VNI == world.VNIRed })
	s.Addresses = slices.DeleteFunc(s.Addresses, func(a state.Address) bool { return a.VNI == world.VNIRed })
	s.NodePorts = slices.DeleteFunc(s.NodePorts, func(p state.NodePort) bool { return p.VNI == world.VNIRed })
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	expect("when the VPC has gone", map[string]uint64{})
	if n := bpftest.Counts(t, w.Datapath)["from_pod/no_endpoint"]; n != 3 {
		t.Errorf("%d drops are counted over all, want 3", n)
	}
}

// oneDrop runs a packet that is dropped and returns its event.
func oneDrop(t *testing.T, drops *world.Events, run func()) telemetry.Event {
	t.Helper()
	run() // the program has written the event then
	if drops.Ring.AvailableBytes() == 0 {
		t.Fatal("nothing was reported")
	}
	drop, err := drops.Read()
	if err != nil {
		t.Fatal(err)
	}
	drop.Time = 0
	return drop
}

func TestEvent_Drop_HasPacketAndTunnelEnds(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	drops := readDrops(t, w)
	reason := func(name string) (r telemetry.Reason) {
		for r.String() != name && r < 1000 {
			r++
		}
		return r
	}
	inner := func(src, dst string) wire.Frame {
		return wire.Frame{EthDst: world.MacA, EthSrc: world.MacR, Src: wire.IP(src), Dst: wire.IP(dst), L4: wire.UDP{Sport: 7, Dport: 8}}
	}
	popped := func(vni uint32, f wire.Frame) []byte {
		return world.Wrapped{
			Eth: world.MacUplink, From: wire.IP("192.0.2.2"), To: wire.IP("192.0.2.1"), Port: programs.DefaultTunnelPort, Flags: 8, VNI: vni, Inner: f.Bytes(),
		}.Bytes()
	}
	returned := func(src, dst string) wire.Frame {
		return inner(src, dst).With(func(f *wire.Frame) { f.EthSrc = world.ClassReturned })
	}
	later := world.FromA(func(f *wire.Frame) {
		f.Dst, f.Fragment, f.L4 = wire.IP("10.0.1.98"), &wire.Fragment{Offset: 185, More: false}, wire.Raw{Proto: state.ProtoUDP, Data: []byte("the rest")}
	})
	for name, c := range map[string]struct {
		program *ebpf.Program
		device  int
		in      []byte
		want    telemetry.Event
	}{
		"from a pod, TCP": {w.Objects.AliothFromPod, w.PodA, world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") }).Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: reason("no_endpoint"), Direction: telemetry.FromPod, Proto: state.ProtoTCP,
			Came: telemetry.Tuple{Src: wire.IP("10.0.1.10"), Dst: wire.IP("10.0.1.99"), Sport: 1000, Dport: 80},
		}},
		"from a pod, a later fragment": {w.Objects.AliothFromPod, w.PodB, later.With(func(f *wire.Frame) {
			f.EthSrc, f.Src = world.MacB, wire.IP("10.0.1.11")
		}).Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: reason("no_endpoint"), Direction: telemetry.FromPod, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: wire.IP("10.0.1.11"), Dst: wire.IP("10.0.1.98")},
		}},
		"from the stack to a shadow that is another's": {w.Objects.AliothToPod, w.Twin, world.Answer("169.254.64.99", wire.UDP{Sport: 53, Dport: 9}).Bytes(), telemetry.Event{
			VNI: world.VNIBlue, Reason: reason("not_shadow"), Direction: telemetry.ToPod, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: wire.IP("10.8.1.10"), Dst: wire.IP("169.254.64.99"), Sport: 53, Dport: 9},
		}},
		"popped on the underlay": {w.Objects.AliothFromUnderlay, w.Config.UnderlayIfindex, popped(world.VNIRed, returned("10.0.1.10", "10.0.1.20")), telemetry.Event{
			VNI: world.VNIRed, Reason: reason("stale_row"), Direction: telemetry.FromTunnel, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: wire.IP("10.0.1.10"), Dst: wire.IP("10.0.1.20"), Sport: 7, Dport: 8}, OuterSrc: wire.IP("192.0.2.2"), OuterDst: wire.IP("192.0.2.1"),
		}},
		"by the tunnel's device, over IPv6": {world.Tunnelled(t, w, world.VNIRed, wire.IP("2001:db8::2")), w.PodA, inner("10.0.1.11", "10.0.1.10").Bytes(), telemetry.Event{
			VNI: world.VNIRed, Reason: reason("spoofed_local"), Direction: telemetry.FromTunnel, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: wire.IP("10.0.1.11"), Dst: wire.IP("10.0.1.10"), Sport: 7, Dport: 8}, OuterSrc: wire.IP("2001:db8::2"),
		}},
		"of a VPC that is not here": {world.Tunnelled(t, w, 999, wire.IP("192.0.2.2")), w.PodA, returned("10.0.1.20", "10.0.1.10").Bytes(), telemetry.Event{
			VNI: 999, Reason: reason("unknown_vni"), Direction: telemetry.FromTunnel, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: wire.IP("10.0.1.20"), Dst: wire.IP("10.0.1.10"), Sport: 7, Dport: 8}, OuterSrc: wire.IP("192.0.2.2"), OuterDst: netip.IPv4Unspecified(),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			got := oneDrop(t, drops, func() { world.Run(t, c.program, c.device, c.in) })
			c.want.Ifindex = c.device
			if d := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
				t.Errorf("event (-want +got):\n%s", d)
			}
		})
	}
}

func TestServiceFlows_Table_Read(t *testing.T) {
	w := world.New(t)
	world.Run(t, w.Objects.AliothFromPod, w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53}).Bytes())
	world.Run(t, w.Objects.AliothFromPod, w.Twin, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagSYN}).Bytes())
	world.Run(t, w.Objects.AliothToPod, w.PodA, world.Answer(world.ShadowA, wire.UDP{Sport: 5353, Dport: 1000}).Bytes())
	got, err := connections.List(bpf.Pinnable(w.Objects))
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i].LastSeen = 0
	}
	flow := func(vni uint32, ifindex int, proto uint8, answered bool) connections.Connection {
		return connections.Connection{
			VNI: vni, Ifindex: ifindex, Proto: proto, Pod: netip.MustParseAddrPort("10.0.1.10:1000"),
			Service: netip.MustParseAddrPort("10.96.0.10:53"), Backend: netip.MustParseAddrPort("10.8.1.10:5353"), Answered: answered,
		}
	}
	want := []connections.Connection{flow(world.VNIRed, w.PodA, state.ProtoUDP, true), flow(world.VNIBlue, w.Twin, state.ProtoTCP, false)}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
