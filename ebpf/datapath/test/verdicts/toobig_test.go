// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"encoding/binary"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// long returns a UDP packet of size bytes, IP header included, from pod A.
func long(dst string, size int, mutate func(*wire.Frame)) []byte {
	base, header := world.FromA, 20
	if wire.IP(dst).Is6() {
		base, header = world.FromA6, 40
	}
	return base(func(f *wire.Frame) {
		f.Dst, f.Whole = wire.IP(dst), true
		f.L4 = wire.UDP{Sport: 1000, Dport: 80, Payload: make([]byte, size-header-8)}
		mutate(f)
	}).Bytes()
}

// tooBig returns the ICMP error to pod A about a packet of its own.
func tooBig(about []byte, mtu uint16) []byte {
	quoted := about[14:]
	if quoted[0]>>4 == 6 {
		body := binary.BigEndian.AppendUint32(nil, uint32(mtu))
		return wire.Frame{
			EthDst: world.MacA, EthSrc: state.VirtualMAC, Src: wire.IP("fd10:0:0:1::1"), Dst: wire.IP("fd10:0:0:1::10"),
			L4: wire.ICMP{V6: true, Type: 2, Body: append(body, quoted[:min(len(quoted), 1280-48)]...)},
		}.Bytes()
	}
	body := binary.BigEndian.AppendUint16([]byte{0, 0}, mtu)
	b := wire.Frame{
		EthDst: world.MacA, EthSrc: state.VirtualMAC, Src: wire.IP("10.0.1.1"), Dst: wire.IP("10.0.1.10"), Whole: true,
		L4: wire.ICMP{Type: 3, Code: 4, Body: append(body, quoted[:min(len(quoted), 576-28)]...)},
	}.Bytes()
	copy(b[18:20], []byte{0, 0}) // no identification
	return trafficClass(b, 0xc0)
}

func TestTooBig_Packet_SenderToldMTU(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	s := w.State()
	s.Addresses = append(s.Addresses,
		state.Address{VNI: world.VNIRed, IP: wire.IP("fd10:0:0:1::21"), Kind: state.Remote, Node: wire.IP("192.0.2.2"), MAC: world.MacR},
		state.Address{VNI: world.VNIRed, IP: wire.IP("10.0.1.21"), Kind: state.Remote, Node: wire.IP("2001:db8::2"), MAC: world.MacR})
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	const far4, far6, over6, far6over6 = "10.0.1.20", "fd10:0:0:1::21", "10.0.1.21", "fd10:0:0:1::20"
	reported := func(name string, in []byte, mtu uint16) world.Case {
		return world.Case{
			Name: name, Device: w.PodA, In: in, Out: tooBig(in, mtu), Verdict: world.ActRedirect, Counts: world.One("from_pod/replied_too_big"),
		}
	}
	carried := func(name string, in []byte) world.Case {
		out := append(append(world.MacR[:], world.ClassDirect[:]...), in[12:]...)
		return world.Case{Name: name, Device: w.PodA, In: in, Out: out, Verdict: world.ActRedirect, Counts: world.One("from_pod/forwarded_remote")}
	}
	with := func(l4 wire.Transport) func(*wire.Frame) { return func(f *wire.Frame) { f.L4 = l4 } }
	bpftest.SetMTU(t, w.Config.UnderlayIfindex, 1500)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		reported("IPv4 over IPv4", long(far4, 1451, world.Unchanged), 1450),
		reported("IPv6 over IPv4", long(far6, 1451, world.Unchanged), 1450),
		reported("IPv4 over IPv6", long(over6, 1431, world.Unchanged), 1430),
		reported("IPv6 over IPv6", long(far6over6, 1431, world.Unchanged), 1430),
		reported("IPv4 over IPv6 that may be fragmented, but is more than two fragments", long(over6, 2867, func(f *wire.Frame) { f.Whole = false }), 1430),
		carried("the longest IPv6 over IPv6", long(far6over6, 1430, world.Unchanged)),
		carried("IPv4 that may be fragmented", long(far4, 1451, func(f *wire.Frame) { f.Whole = false })),
		reported("with IPv4 options", long(far4, 1451, func(f *wire.Frame) { f.Options = []byte{1, 1, 1, 0} }), 1450),
		reported("TCP", long(far4, 1451, with(wire.TCP{Sport: 1, Dport: 2, Flags: wire.FlagACK, Payload: make([]byte, 1411)})), 1450),
		reported("an echo request", long(far4, 1500, with(wire.ICMP{Type: 8, Body: make([]byte, 1476)})), 1450),
		reported("a protocol that nobody knows", long(far6, 1500, with(wire.Raw{Proto: 253, Data: make([]byte, 1460)})), 1450),
		reported("the first of some IPv6 fragments", long(far6, 1496, func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} }), 1450),
		dropped("an ICMP error", w.PodA, long(far4, 1500, with(longError(far4, 1476))), "too_big"),
		dropped("an ICMPv6 error", w.PodA, long(far6, 1500, with(longError(far6, 1456))), "too_big"),
		dropped("a later IPv4 fragment", w.PodA, long(far4, 1500, func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 185, More: false} }), "too_big"),
		dropped("a later IPv6 fragment", w.PodA, long(far6, 1500, func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 185, More: false} }), "too_big"),
	})
	bpftest.SetMTU(t, w.Config.UnderlayIfindex, 1280)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		reported("IPv4, on a narrow underlay", long(far4, 1231, world.Unchanged), 1230),
		reported("IPv6 of more than the least, on a narrow underlay", long(far6, 1281, world.Unchanged), 1280),
		carried("IPv6 of the least, on a narrow underlay", long(far6, 1280, world.Unchanged)),
	})
}

// longError returns an error of pod A for who has sent to it, that quotes so many bytes in all.
func longError(dst string, size int) wire.ICMP {
	about := wire.Frame{Src: wire.IP(dst), Dst: wire.IP("10.0.1.10"), L4: wire.UDP{Sport: 1, Dport: 2, Payload: make([]byte, size-32)}}
	if about.Src.Is6() {
		about.Dst, about.L4 = wire.IP("fd10:0:0:1::10"), wire.UDP{Sport: 1, Dport: 2, Payload: make([]byte, size-52)}
		return wire.Quoting(wire.ICMP{V6: true, Type: 1}, about)
	}
	return wire.Quoting(wire.ICMP{Type: 3, Code: 1}, about)
}

func TestTooBig_FragmentableIPv4OverIPv6_ToFragmenter(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	s := w.State()
	s.Addresses = append(
		s.Addresses,
		state.Address{VNI: world.VNIRed, IP: wire.IP("10.0.1.21"), Kind: state.Remote, Node: wire.IP("2001:db8::2"), MAC: world.MacR},
	)
	bpftest.Must(t, w.Apply(s))
	bpftest.SetMTU(t, w.Config.UnderlayIfindex, 1500)
	free := func(f *wire.Frame) { f.Whole = false }
	for name, in := range map[string][]byte{
		"one byte more than fits":       long("10.0.1.21", 1431, free),
		"as much as two fragments have": long("10.0.1.21", 2866, free),
		"a later fragment":              long("10.0.1.21", 1500, func(f *wire.Frame) { f.Whole, f.Fragment = false, &wire.Fragment{Offset: 185, More: false} }),
		"an ICMP error":                 long("10.0.1.21", 1500, func(f *wire.Frame) { f.Whole, f.L4 = false, longError("10.0.1.21", 1476) }),
	} {
		t.Run(name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			before := bpftest.Counts(t, w.Datapath)
			verdict, out, mark := world.Run(t, w.Objects.AliothFromPod, w.PodA, in)
			if verdict != world.ActRedirect || mark != world.VNIRed {
				t.Errorf("verdict %d, mark %d; want %d, the VNI %d", verdict, mark, world.ActRedirect, world.VNIRed)
			}
			if d := cmp.Diff(world.One("from_pod/forwarded_remote"), bpftest.Added(before, bpftest.Counts(t, w.Datapath))); d != "" {
				t.Errorf("counters (-want +got):\n%s", d)
			}
			if d := cmp.Diff(append(append(world.MacR[:], world.ClassDirect[:]...), in[12:]...), out); d != "" {
				t.Errorf("packet out (-want +got):\n%s", d)
			}
		})
	}
}

func TestTooBig_Segments_OneError(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	// 40 bytes of headers, and segments of equal size.
	in := long("10.0.1.20", 3000, func(f *wire.Frame) {
		f.L4 = wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagACK, Payload: make([]byte, 2960)}
	})
	for size, reason := range map[uint32]string{1410: "forwarded_remote", 1411: "replied_too_big"} {
		bpftest.Enter(t, w.NS)
		before := bpftest.Counts(t, w.Datapath)
		ctx := bpf.Received(w.PodA)
		ctx.GSOSize, ctx.GSOSegs = size, 3
		verdict, out, end := world.RunContext(t, w.Objects.AliothFromPod, in, ctx)
		if verdict != world.ActRedirect {
			t.Errorf("verdict for segments of %d bytes is %d", size, verdict)
		}
		if d := cmp.Diff(world.One("from_pod/"+reason), bpftest.Added(before, bpftest.Counts(t, w.Datapath))); d != "" {
			t.Errorf("counters (-want +got):\n%s", d)
		}
		if reason != "replied_too_big" {
			continue
		}
		if d := cmp.Diff(tooBig(in, 1450), out); d != "" {
			t.Errorf("packet out (-want +got):\n%s", d)
		}
		if end.GSOSegs != 0 {
			t.Errorf("the error is to be cut into %d segments", end.GSOSegs)
		}
	}
}

// A packet longer than any before it has the routes read anew, so that a path whose MTU
// became smaller is noticed, for all packets after it too.
func TestNodePath_Narrower_Forgotten(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	short, fits := long("10.0.1.20", 1300, func(f *wire.Frame) { f.Whole = false }), long("10.0.1.20", 1250, world.Unchanged)
	pushed := func(in []byte) bool {
		_, out, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, in)
		return len(out) == len(in)+50
	}
	// As if it had been asked a moment ago, however long this takes.
	believe := func() {
		var node uint32
		var way bpf.AliothKnownWay
		rows := w.Objects.AliothWays.Iterate()
		if !rows.Next(&node, &way) {
			t.Fatal("no way is remembered")
		}
		way.Until = math.MaxUint64
		bpftest.Must(t, w.Objects.AliothWays.Put(node, way))
	}
	if !pushed(short) {
		t.Fatal("the packet does not fit the way before")
	}
	believe()
	bpftest.SetMTU(t, w.Config.UnderlayIfindex, 1300)
	if !pushed(short) {
		t.Error("the way is not remembered at all")
	}
	if pushed(long("10.0.1.20", 1500, world.Unchanged)) {
		t.Error("a packet goes on that fits no way")
	}
	if pushed(short) {
		t.Error("a packet goes where it does not fit any more")
	}
	if !pushed(fits) {
		t.Error("what fits the narrower way does not go there")
	}
	believe()
	if pushed(short) || !pushed(fits) {
		t.Error("the narrower way is not remembered")
	}
}

func TestTooBig_NoGateway_NobodyTold(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	s := w.State()
	for i := range s.Interfaces {
		s.Interfaces[i].Gateway4, s.Interfaces[i].Gateway6 = netip.Addr{}, netip.Addr{}
	}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("IPv4", w.PodA, long("10.0.1.20", 1451, world.Unchanged), "too_big"),
	})
}

func TestICMPErrors_ToInterface_Bounded(t *testing.T) {
	w := world.New(t, world.OnUnderlay(t))
	s := w.State()
	s.Interfaces[1].Gateway4 = wire.IP("10.0.1.1")
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	in := long("10.0.1.20", 1451, world.Unchanged)
	before, began := bpftest.Counts(t, w.Datapath), time.Now()
	const sent = 2000
	for range sent {
		world.Run(t, w.Objects.AliothFromPod, w.PodA, in)
	}
	// Up to 100 at once, and one more per ms: the slower the machine, the more.
	bound := uint64(102 + time.Since(began).Milliseconds())
	got := bpftest.Added(before, bpftest.Counts(t, w.Datapath))
	reported, silent := got["from_pod/replied_too_big"], got["from_pod/too_big"]
	if reported < 100 || reported > bound || reported+silent != sent {
		t.Errorf("of %d packets the sender was told of %d, of %d not; want from 100 to %d", sent, reported, silent, bound)
	}
	f := world.FromA(func(f *wire.Frame) {
		f.EthSrc, f.Src, f.Dst, f.Whole = world.MacB, wire.IP("10.0.1.11"), wire.IP("10.0.1.20"), true
		f.L4 = wire.UDP{Sport: 1, Dport: 2, Payload: make([]byte, 1451-28)}
	})
	before = bpftest.Counts(t, w.Datapath)
	world.Run(t, w.Objects.AliothFromPod, w.PodB, f.Bytes())
	if d := cmp.Diff(world.One("from_pod/replied_too_big"), bpftest.Added(before, bpftest.Counts(t, w.Datapath))); d != "" {
		t.Errorf("another interface's packet at that time (-want +got):\n%s", d)
	}
}
