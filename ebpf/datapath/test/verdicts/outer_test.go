// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// trafficClass sets the byte that holds the congestion bits.
func trafficClass(f []byte, class uint8) []byte {
	f = bytes.Clone(f)
	if f[14]>>4 == 6 {
		f[14], f[15] = f[14]&0xf0|class>>4, f[15]&0x0f|class<<4
		return f
	}
	f[15], f[24], f[25] = class, 0, 0
	binary.BigEndian.PutUint16(f[24:], wire.Fold(wire.Sum(0, f[14:34])))
	return f
}

// checkOuter checks the outer headers of a packet for the node 192.0.2.2, whose
// source port alone is free within its range.
func checkOuter(t *testing.T, out []byte, vni uint32, tos uint8) {
	t.Helper()
	if len(out) < 64 {
		t.Fatalf("%d bytes came out, too few for outer headers", len(out))
	}
	source := binary.BigEndian.Uint16(out[34:])
	if source < 49152 {
		t.Errorf("the source port is %d, want one from 49152 on", source)
	}
	header := binary.BigEndian.AppendUint32([]byte{8, 0, 0, 0}, vni<<8)
	want := wire.Frame{
		EthDst: state.VirtualMAC, EthSrc: world.MacA, Src: wire.IP("192.0.2.1"), Dst: wire.IP("192.0.2.2"), Hops: 8,
		L4: wire.UDP{Sport: source, Dport: programs.DefaultTunnelPort, NoChecksum: true, Payload: append(header, out[50:]...)},
	}.Bytes()
	copy(want[18:22], []byte{0, 0, 0x40, 0}) // no identification, don't fragment
	want = trafficClass(want, tos)
	if d := cmp.Diff(want[14:50], out[14:50]); d != "" {
		t.Errorf("outer headers (-want +got):\n%s", d)
	}
}

func TestOuterHeaders_RouteFits_Pushed(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	s := w.State()
	for to, node := range map[string]string{"fd10:0:0:1::21": "192.0.2.2", "10.0.1.22": "198.51.100.9"} {
		s.Addresses = append(s.Addresses, state.Address{VNI: world.VNIRed, IP: wire.IP(to), Kind: state.Remote, Node: wire.IP(node), MAC: world.MacR})
	}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	to := func(dst string, size int) []byte {
		make4, d := world.FromA, wire.IP(dst)
		if d.Is6() {
			make4 = world.FromA6
		}
		return make4(func(f *wire.Frame) { f.Dst, f.L4 = d, wire.UDP{Sport: 1000, Dport: 80, Payload: make([]byte, size)} }).Bytes()
	}
	for _, c := range []struct {
		name   string
		in     []byte
		pushed bool
		tos    uint8
	}{
		{"IPv4", to("10.0.1.20", 100), true, 0},
		{"IPv6 over IPv4", to("fd10:0:0:1::21", 100), true, 0},
		{"IPv4 that can be marked", trafficClass(to("10.0.1.20", 100), 0xb9), true, 1},
		{"IPv6 that can be marked", trafficClass(to("fd10:0:0:1::21", 100), 0xba), true, 2},
		{"IPv4 with a mark of its own", trafficClass(to("10.0.1.20", 100), 3), true, 2},
		{"the longest that fits", to("10.0.1.20", 1450-28), true, 0},
		{"one byte more", to("10.0.1.20", 1450-27), false, 0},
		{"over IPv6", to("fd10:0:0:1::20", 100), false, 0},
		{"to a node without a route", to("10.0.1.22", 100), false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			before := bpftest.Counts(t, w.Datapath)
			verdict, out, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, c.in)
			if verdict != world.ActRedirect {
				t.Errorf("verdict is %d, want %d", verdict, world.ActRedirect)
			}
			if d := cmp.Diff(world.One("from_pod/forwarded_remote"), bpftest.Added(before, bpftest.Counts(t, w.Datapath))); d != "" {
				t.Errorf("counters (-want +got):\n%s", d)
			}
			inner := out
			if c.pushed {
				checkOuter(t, out, world.VNIRed, c.tos)
				inner = out[50:]
			}
			want := append(append(world.MacR[:], world.ClassDirect[:]...), c.in[12:]...)
			if d := cmp.Diff(want, inner); d != "" {
				t.Errorf("inner packet (-want +got):\n%s", d)
			}
		})
	}
}

// A route that was asked a moment ago is not asked again.
func TestNodePath_RouteMTUChanges_Followed(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	in := world.FromA(func(f *wire.Frame) {
		f.Dst, f.L4 = wire.IP("10.0.1.20"), wire.UDP{Sport: 1000, Dport: 80, Payload: make([]byte, 1400)}
	}).Bytes()
	pushed := func() bool {
		_, out, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, in)
		return len(out) > len(in)
	}
	for range 2 { // the second time from memory
		if !pushed() {
			t.Fatal("no outer headers are pushed")
		}
	}
	bpftest.SetMTU(t, w.Config.UnderlayIfindex, 1400)
	bpftest.Eventually(t, "a packet no longer fits", func() bool { return !pushed() })
	bpftest.SetMTU(t, w.Config.UnderlayIfindex, 1500)
	bpftest.Eventually(t, "it fits again", pushed)
}

func TestOuterSourcePort_SameFlow_Equal(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	for name, l4 := range map[string]wire.Transport{
		"ICMP": wire.ICMP{Type: 8, Body: []byte{0, 1, 0, 1}}, "UDP": wire.UDP{Sport: 1000, Dport: 80}, "TCP": wire.TCP{Sport: 1000, Dport: 80},
	} {
		in := world.FromA(func(f *wire.Frame) { f.Dst, f.L4 = wire.IP("10.0.1.20"), l4 }).Bytes()
		_, first, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, in)
		_, second, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, in)
		checkOuter(t, first, world.VNIRed, 0)
		if !bytes.Equal(first[34:36], second[34:36]) {
			t.Errorf("%s: source ports %x and %x", name, first[34:36], second[34:36])
		}
	}
}

func TestOuterHeaders_UsualPackets_Popped(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	inner := wire.Frame{
		EthDst: world.MacA, EthSrc: world.MacR, Src: wire.IP("10.0.1.20"), Dst: wire.IP("10.0.1.10"),
		L4: wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN, Payload: []byte("payload")},
	}
	inner6 := inner.With(func(f *wire.Frame) { f.Src, f.Dst = wire.IP("fd10:0:0:1::20"), wire.IP("fd10:0:0:1::10") })
	usual := world.Wrapped{
		Eth:   world.MacUplink,
		From:  wire.IP("192.0.2.2"),
		To:    wire.IP("192.0.2.1"),
		Port:  programs.DefaultTunnelPort,
		Flags: 8,
		VNI:   world.VNIRed,
	}
	in := func(change func(*world.Wrapped)) []byte {
		p := usual
		p.Inner = inner.Bytes()
		change(&p)
		return p.Bytes()
	}
	holding := func(f wire.Frame) []byte { return in(func(p *world.Wrapped) { p.Inner = f.Bytes() }) }
	var cases []world.Case
	delivered := func(name string, packet []byte, f wire.Frame) {
		cases = append(cases, world.Case{
			Name: name, Device: w.Config.UnderlayIfindex, In: packet, Verdict: world.ActRedirect,
			Out:    f.With(func(f *wire.Frame) { f.EthDst, f.EthSrc = world.MacA, state.VirtualMAC }).Bytes(),
			Counts: world.One("from_tunnel/forwarded_local"),
		})
	}
	refused := func(name string, f wire.Frame, reason string) {
		cases = append(cases, world.Case{
			Name: name, Device: w.Config.UnderlayIfindex, In: holding(f), Out: f.Bytes(), Verdict: world.ActShot, Counts: world.One("from_tunnel/" + reason),
		})
	}
	left := func(name string, packet []byte) {
		cases = append(cases, world.Case{
			Name: name, Device: w.Config.UnderlayIfindex, In: packet, Verdict: world.ActNext, Counts: map[string]uint64{},
		})
	}
	delivered("IPv4", holding(inner), inner)
	if bpftest.PopsIPv6(t) {
		delivered("IPv6", holding(inner6), inner6)
	} else {
		left("IPv6", holding(inner6))
	}
	delivered("to the same address in another VPC", in(func(p *world.Wrapped) { p.VNI = world.VNIBlue }), inner)
	refused("under an address of a pod of this node", inner.With(func(f *wire.Frame) { f.Src = wire.IP("10.0.1.11") }), "spoofed_local")
	nobody := inner.With(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") })
	cases = append(cases, world.Case{
		Name: "to an address nobody has", Device: w.Config.UnderlayIfindex, In: holding(nobody), Verdict: world.ActRedirect,
		Out: nobody.With(func(f *wire.Frame) { f.EthSrc = world.ClassReturned }).Bytes(), Counts: world.One("from_tunnel/returned"),
	})
	refused("a broadcast frame", inner.With(func(f *wire.Frame) { f.EthDst = world.Bcast }), "tunnel_flood")
	left("from no node", in(func(p *world.Wrapped) { p.From = wire.IP("192.0.2.66") }))
	left("of a VPC that is not here", in(func(p *world.Wrapped) { p.VNI = 999 }))
	left("to another address of the node", in(func(p *world.Wrapped) { p.To = wire.IP("192.0.2.9") }))
	left("to another port", in(func(p *world.Wrapped) { p.Port = 8472 }))
	left("for another Ethernet address", in(func(p *world.Wrapped) { p.Eth = world.MacB }))
	left("with a checksum to verify", in(func(p *world.Wrapped) { p.Check = true }))
	left("without a VNI", in(func(p *world.Wrapped) { p.Flags = 0 }))
	left("with flags of an extension", in(func(p *world.Wrapped) { p.Flags = 0x0c }))
	left("a fragment", in(func(p *world.Wrapped) { p.Frag = &wire.Fragment{Offset: 0, More: true} }))
	left("with options", in(func(p *world.Wrapped) { p.Opts = []byte{1, 1, 1, 0} }))
	left("marked on the way", trafficClass(holding(inner), 3))
	left("with ARP inside", in(func(p *world.Wrapped) {
		p.Inner = wire.ARP(world.Bcast, world.MacR, 1, world.MacR, wire.IP("10.0.1.20"), state.MAC{}, wire.IP("10.0.1.10"))
	}))
	left("too short", in(func(p *world.Wrapped) { p.Inner = p.Inner[:10] }))
	left("no tunnel's packet at all", inner.With(func(f *wire.Frame) { f.EthDst, f.Dst = world.MacUplink, wire.IP("192.0.2.1") }).Bytes())
	w.Expect(t, w.Objects.AliothFromUnderlay, cases)
}
