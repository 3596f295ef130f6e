// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

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
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// whose returns the drops as "device VNI direction/reason" -> packets.
func whose(t *testing.T, d *opened) map[string]uint64 {
	t.Helper()
	counters, err := d.DropCounters()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]uint64{}
	for _, c := range counters {
		m[fmt.Sprintf("%d %d %s/%s", c.Ifindex, c.VNI, c.Direction, c.Reason)] = c.Packets
	}
	return m
}

func sweep(t *testing.T, d *opened) {
	t.Helper()
	if err := d.SweepDropCounters(); err != nil {
		t.Fatal(err)
	}
}

func TestDropsAreCountedByInterfaceAndVPC(t *testing.T) {
	w := newWorld(t)
	lost := fromA(func(f *frame) { f.Dst = Ip("10.0.1.99") }).bytes()
	for _, device := range []int{w.podA, w.podA, w.twin} {
		run(t, w.objects.AliothFromPod, device, lost)
	}
	run(t, w.objects.AliothFromPod, w.podA, fromA(unchanged).bytes()) // goes on
	run(t, w.objects.AliothFromPod, 1, lost)                          // no interface
	run(t, w.objects.AliothToPod, w.podB, lost)
	want := map[string]uint64{
		fmt.Sprintf("%d %d from_pod/no_endpoint", w.podA, vniRed): 2,
		fmt.Sprintf("%d %d from_pod/no_subnet", w.twin, vniBlue):  1,
		fmt.Sprintf("%d %d to_pod/not_shadow", w.podB, vniRed):    1,
		"1 0 from_pod/unknown_interface":                          1,
	}
	if d := cmp.Diff(want, whose(t, w.opened)); d != "" {
		t.Errorf("drops (-want +got):\n%s", d)
	}
}

func TestNothingInATunnelPacketMakesAKeyOfItsOwn(t *testing.T) {
	w := newWorld(t)
	inner := frame{EthDst: MacA, EthSrc: macR, Src: Ip("10.0.1.20"), Dst: Ip("10.0.1.99"), L4: udp{Sport: 1, Dport: 2}}.bytes()
	for vni := uint32(1000); vni < 1100; vni++ {
		run(t, tunnelled(t, w, vni, Ip("192.0.2.2")), w.podA, inner)
		run(t, tunnelled(t, w, vni, Ip("192.0.2.66")), w.podA, inner)
	}
	run(t, tunnelled(t, w, vniRed, Ip("192.0.2.66")), w.podA, inner)
	run(t, tunnelled(t, w, vniRed, Ip("192.0.2.2")), w.podA, inner)
	want := map[string]uint64{
		fmt.Sprintf("%d 0 from_tunnel/unknown_vni", w.podA):           100,
		fmt.Sprintf("%d 0 from_tunnel/unknown_node", w.podA):          100,
		fmt.Sprintf("%d %d from_tunnel/unknown_node", w.podA, vniRed): 1,
		fmt.Sprintf("%d %d from_tunnel/no_endpoint", w.podA, vniRed):  1,
	}
	if d := cmp.Diff(want, whose(t, w.opened)); d != "" {
		t.Errorf("drops (-want +got):\n%s", d)
	}
}

func TestADropThatFindsNoRoomIsCountedAllTheSame(t *testing.T) {
	w := newWorld(t)
	m := w.objects.AliothDropCounters
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]bpf.AliothDropKey, m.MaxEntries())
	for i := range keys {
		keys[i] = bpf.AliothDropKey{Ifindex: 1 << 20, Vni: uint32(i)}
	}
	// The kernel keeps some rows ready and makes more on the side: so many at once
	// may find none, and then go on where they were.
	for end := time.Now().Add(patience); len(keys) > 0; {
		n, err := m.BatchUpdate(keys, make([]bpf.AliothCounter, len(keys)*cpus), nil)
		if err != nil && (!errors.Is(err, unix.ENOMEM) || time.Now().After(end)) {
			t.Fatal(err)
		}
		keys = keys[n:]
	}
	lost := fromA(func(f *frame) { f.Dst = Ip("10.0.1.99") }).bytes()
	before := counts(t, w.opened)
	if verdict, _, _ := run(t, w.objects.AliothFromPod, w.podA, lost); verdict != actShot {
		t.Errorf("verdict is %d", verdict)
	}
	if d := cmp.Diff(one("from_pod/no_endpoint"), added(before, counts(t, w.opened))); d != "" {
		t.Errorf("counters (-want +got):\n%s", d)
	}
	if n := countedTwice(t, w.opened)["from_pod/no_endpoint"]; n != 0 {
		t.Errorf("a full table has taken %d more", n)
	}
	// All of these belong to nobody, so that a sweep makes room.
	sweep(t, w.opened)
	run(t, w.objects.AliothFromPod, w.podA, lost)
	if n := countedTwice(t, w.opened)["from_pod/no_endpoint"]; n != 1 {
		t.Errorf("after the sweep, %d were counted, want 1", n)
	}
}

func TestDropsOfAnInterfaceThatIsGoneStayWithItsVPC(t *testing.T) {
	w := newWorld(t)
	lost := fromA(func(f *frame) { f.Dst = Ip("10.0.1.99") }).bytes()
	own := func(ifindex int) string { return fmt.Sprintf("%d %d from_pod/no_endpoint", ifindex, vniRed) }
	expect := func(when string, want map[string]uint64) {
		t.Helper()
		sweep(t, w.opened)
		if d := cmp.Diff(want, whose(t, w.opened)); d != "" {
			t.Errorf("%s (-want +got):\n%s", when, d)
		}
	}
	run(t, w.objects.AliothFromPod, w.podA, lost)
	run(t, w.objects.AliothFromPod, w.podA, lost)
	expect("while the interface is there", map[string]uint64{own(w.podA): 2})

	s := w.state()
	without := func(ifindex int) {
		s.Interfaces = slices.DeleteFunc(s.Interfaces, func(i state.Interface) bool { return i.Ifindex == ifindex })
		s.Addresses = slices.DeleteFunc(s.Addresses, func(a state.Address) bool { return a.Ifindex == ifindex })
		if err := w.Apply(s); err != nil {
			t.Fatal(err)
		}
	}
	fromB := bytes.Clone(lost)
	copy(fromB[6:], MacB[:])
	copy(fromB[26:], []byte{10, 0, 1, 11})
	run(t, w.objects.AliothFromPod, w.podB, fromB)
	without(w.podA)
	expect("when it has gone", map[string]uint64{own(0): 2, own(w.podB): 1})
	without(w.podB)
	expect("when another one has gone", map[string]uint64{own(0): 3})

	s.VPCs = slices.DeleteFunc(s.VPCs, func(v state.VPC) bool { return v.VNI == vniRed })
	s.Subnets = slices.DeleteFunc(s.Subnets, func(n state.Subnet) bool { return n.VNI == vniRed })
	s.Addresses = slices.DeleteFunc(s.Addresses, func(a state.Address) bool { return a.VNI == vniRed })
	s.NodePorts = slices.DeleteFunc(s.NodePorts, func(p state.NodePort) bool { return p.VNI == vniRed })
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	expect("when the VPC has gone", map[string]uint64{})
	if n := counts(t, w.opened)["from_pod/no_endpoint"]; n != 3 {
		t.Errorf("%d drops are counted over all, want 3", n)
	}
}

// oneDrop runs a packet that is dropped and returns its event.
func oneDrop(t *testing.T, drops *events, run func()) telemetry.Event {
	t.Helper()
	run() // after which the program has written the event
	if drops.ring.AvailableBytes() == 0 {
		t.Fatal("nothing was reported")
	}
	drop, err := drops.Read()
	if err != nil {
		t.Fatal(err)
	}
	drop.Time = 0
	return drop
}

func TestAnEventHasTheEndsOfThePacketAndOfTheTunnel(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	drops := w.readDrops(t)
	reason := func(name string) (r telemetry.Reason) {
		for r.String() != name && r < 1000 {
			r++
		}
		return r
	}
	inner := func(src, dst string) frame {
		return frame{EthDst: MacA, EthSrc: macR, Src: Ip(src), Dst: Ip(dst), L4: udp{Sport: 7, Dport: 8}}
	}
	popped := func(vni uint32, f frame) []byte {
		return wrapped{
			eth: macUplink, from: Ip("192.0.2.2"), to: Ip("192.0.2.1"), port: programs.DefaultTunnelPort, flags: 8, vni: vni, inner: f.bytes(),
		}.bytes()
	}
	later := fromA(func(f *frame) {
		f.Dst, f.Fragment, f.L4 = Ip("10.0.1.98"), &fragment{185, false}, raw{state.ProtoUDP, []byte("the rest")}
	})
	for name, c := range map[string]struct {
		program *ebpf.Program
		device  int
		in      []byte
		want    telemetry.Event
	}{
		"from a pod, TCP": {w.objects.AliothFromPod, w.podA, fromA(func(f *frame) { f.Dst = Ip("10.0.1.99") }).bytes(), telemetry.Event{
			VNI: vniRed, Reason: reason("no_endpoint"), Direction: telemetry.FromPod, Proto: state.ProtoTCP,
			Came: telemetry.Tuple{Src: Ip("10.0.1.10"), Dst: Ip("10.0.1.99"), Sport: 1000, Dport: 80},
		}},
		"from a pod, a later fragment": {w.objects.AliothFromPod, w.podB, later.with(func(f *frame) {
			f.EthSrc, f.Src = MacB, Ip("10.0.1.11")
		}).bytes(), telemetry.Event{
			VNI: vniRed, Reason: reason("no_endpoint"), Direction: telemetry.FromPod, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: Ip("10.0.1.11"), Dst: Ip("10.0.1.98")},
		}},
		"from the stack to a shadow that is another's": {w.objects.AliothToPod, w.twin, answer("169.254.64.99", udp{Sport: 53, Dport: 9}).bytes(), telemetry.Event{
			VNI: vniBlue, Reason: reason("not_shadow"), Direction: telemetry.ToPod, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: Ip("10.8.1.10"), Dst: Ip("169.254.64.99"), Sport: 53, Dport: 9},
		}},
		"popped on the underlay": {w.objects.AliothFromUnderlay, w.cfg.UnderlayIfindex, popped(vniRed, inner("10.0.1.20", "10.0.1.99")), telemetry.Event{
			VNI: vniRed, Reason: reason("no_endpoint"), Direction: telemetry.FromTunnel, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: Ip("10.0.1.20"), Dst: Ip("10.0.1.99"), Sport: 7, Dport: 8}, OuterSrc: Ip("192.0.2.2"), OuterDst: Ip("192.0.2.1"),
		}},
		"by the tunnel's device, over IPv6": {tunnelled(t, w, vniRed, Ip("2001:db8::2")), w.podA, inner("10.0.1.11", "10.0.1.10").bytes(), telemetry.Event{
			VNI: vniRed, Reason: reason("spoofed_local"), Direction: telemetry.FromTunnel, Proto: state.ProtoUDP,
			Came: telemetry.Tuple{Src: Ip("10.0.1.11"), Dst: Ip("10.0.1.10"), Sport: 7, Dport: 8}, OuterSrc: Ip("2001:db8::2"),
		}},
		"of a VPC that is not here": {tunnelled(t, w, 999, Ip("192.0.2.2")), w.podA, inner("10.0.1.20", "10.0.1.10").bytes(), telemetry.Event{
			VNI: 999, Reason: reason("unknown_vni"), Direction: telemetry.FromTunnel,
			OuterSrc: Ip("192.0.2.2"), OuterDst: netip.IPv4Unspecified(),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			enter(t, w.ns)
			got := oneDrop(t, drops, func() { run(t, c.program, c.device, c.in) })
			c.want.Ifindex = c.device
			if d := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
				t.Errorf("event (-want +got):\n%s", d)
			}
		})
	}
}

func TestFlowsToServicesAreRead(t *testing.T) {
	w := newWorld(t)
	run(t, w.objects.AliothFromPod, w.podA, ask(udp{Sport: 1000, Dport: 53}).bytes())
	run(t, w.objects.AliothFromPod, w.twin, ask(tcp{Sport: 1000, Dport: 53, Flags: flagSYN}).bytes())
	run(t, w.objects.AliothToPod, w.podA, answer(shadowA, udp{Sport: 5353, Dport: 1000}).bytes())
	got, err := connections.List(bpf.Pinnable(w.objects))
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
	want := []connections.Connection{flow(vniRed, w.podA, state.ProtoUDP, true), flow(vniBlue, w.twin, state.ProtoTCP, false)}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
