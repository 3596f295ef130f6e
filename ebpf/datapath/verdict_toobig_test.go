// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// setMTU gives a device another MTU, in bytes.
func setMTU(t *testing.T, ifindex, mtu int) {
	t.Helper()
	link, err := netlink.LinkByIndex(ifindex)
	if err == nil {
		err = netlink.LinkSetMTU(link, mtu)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// long is a UDP packet of size bytes, IP header included, from pod A.
func long(dst string, size int, mutate func(*frame)) []byte {
	base, header := fromA, 20
	if Ip(dst).Is6() {
		base, header = fromA6, 40
	}
	return base(func(f *frame) {
		f.Dst, f.Whole = Ip(dst), true
		f.L4 = udp{Sport: 1000, Dport: 80, Payload: make([]byte, size-header-8)}
		mutate(f)
	}).bytes()
}

// tooBig is what pod A is told about a packet of its own.
func tooBig(about []byte, mtu uint16) []byte {
	quoted := about[14:]
	if quoted[0]>>4 == 6 {
		body := binary.BigEndian.AppendUint32(nil, uint32(mtu))
		return frame{
			EthDst: MacA, EthSrc: state.VirtualMAC, Src: Ip("fd10:0:0:1::1"), Dst: Ip("fd10:0:0:1::10"),
			L4: icmp{V6: true, Type: 2, Body: append(body, quoted[:min(len(quoted), 1280-48)]...)},
		}.bytes()
	}
	body := binary.BigEndian.AppendUint16([]byte{0, 0}, mtu)
	b := frame{
		EthDst: MacA, EthSrc: state.VirtualMAC, Src: Ip("10.0.1.1"), Dst: Ip("10.0.1.10"), Whole: true,
		L4: icmp{Type: 3, Code: 4, Body: append(body, quoted[:min(len(quoted), 576-28)]...)},
	}.bytes()
	copy(b[18:20], []byte{0, 0}) // no identification
	return trafficClass(b, 0xc0)
}

func TestASenderIsToldHowLargeItsPacketsMayBe(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	s := w.state()
	s.Addresses = append(s.Addresses,
		state.Address{VNI: vniRed, IP: Ip("fd10:0:0:1::21"), Kind: state.Remote, Node: Ip("192.0.2.2"), MAC: macR},
		state.Address{VNI: vniRed, IP: Ip("10.0.1.21"), Kind: state.Remote, Node: Ip("2001:db8::2"), MAC: macR})
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	const far4, far6, over6, far6over6 = "10.0.1.20", "fd10:0:0:1::21", "10.0.1.21", "fd10:0:0:1::20"
	told := func(name string, in []byte, mtu uint16) verdictCase {
		return verdictCase{
			name: name, device: w.podA, in: in, out: tooBig(in, mtu), verdict: actRedirect, counts: one("from_pod/replied_too_big"),
		}
	}
	carried := func(name string, in []byte) verdictCase {
		out := append(append(macR[:], MacA[:]...), in[12:]...)
		return verdictCase{name: name, device: w.podA, in: in, out: out, verdict: actRedirect, counts: one("from_pod/forwarded_remote")}
	}
	with := func(l4 transport) func(*frame) { return func(f *frame) { f.L4 = l4 } }
	setMTU(t, w.cfg.UnderlayIfindex, 1500)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		told("IPv4 over IPv4", long(far4, 1451, unchanged), 1450),
		told("IPv6 over IPv4", long(far6, 1451, unchanged), 1450),
		told("IPv4 over IPv6", long(over6, 1431, unchanged), 1430),
		told("IPv6 over IPv6", long(far6over6, 1431, unchanged), 1430),
		told("IPv4 over IPv6 that may be fragmented, but is more than two fragments", long(over6, 2867, func(f *frame) { f.Whole = false }), 1430),
		carried("the longest IPv6 over IPv6", long(far6over6, 1430, unchanged)),
		carried("IPv4 that may be fragmented", long(far4, 1451, func(f *frame) { f.Whole = false })),
		told("with IPv4 options", long(far4, 1451, func(f *frame) { f.Options = []byte{1, 1, 1, 0} }), 1450),
		told("TCP", long(far4, 1451, with(tcp{Sport: 1, Dport: 2, Flags: flagACK, Payload: make([]byte, 1411)})), 1450),
		told("an echo request", long(far4, 1500, with(icmp{Type: 8, Body: make([]byte, 1476)})), 1450),
		told("a protocol that nobody knows", long(far6, 1500, with(raw{253, make([]byte, 1460)})), 1450),
		told("the first of some IPv6 fragments", long(far6, 1496, func(f *frame) { f.Fragment = &fragment{0, true} }), 1450),
		dropped("an ICMP error", w.podA, long(far4, 1500, with(longError(far4, 1476))), "too_big"),
		dropped("an ICMPv6 error", w.podA, long(far6, 1500, with(longError(far6, 1456))), "too_big"),
		dropped("a later IPv4 fragment", w.podA, long(far4, 1500, func(f *frame) { f.Fragment = &fragment{185, false} }), "too_big"),
		dropped("a later IPv6 fragment", w.podA, long(far6, 1500, func(f *frame) { f.Fragment = &fragment{185, false} }), "too_big"),
	})
	setMTU(t, w.cfg.UnderlayIfindex, 1280)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		told("IPv4, on a narrow underlay", long(far4, 1231, unchanged), 1230),
		told("IPv6 of more than the least, on a narrow underlay", long(far6, 1281, unchanged), 1280),
		carried("IPv6 of the least, on a narrow underlay", long(far6, 1280, unchanged)),
	})
}

// longError is an error of pod A for who has sent to it, that quotes so many bytes in all.
func longError(dst string, size int) icmp {
	about := frame{Src: Ip(dst), Dst: Ip("10.0.1.10"), L4: udp{Sport: 1, Dport: 2, Payload: make([]byte, size-32)}}
	if about.Src.Is6() {
		about.Dst, about.L4 = Ip("fd10:0:0:1::10"), udp{Sport: 1, Dport: 2, Payload: make([]byte, size-52)}
		return quoting(icmp{V6: true, Type: 1}, about)
	}
	return quoting(icmp{Type: 3, Code: 1}, about)
}

func TestIPv4ThatMayBeFragmentedGoesToTheFragmenterOverIPv6(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	s := w.state()
	s.Addresses = append(s.Addresses, state.Address{VNI: vniRed, IP: Ip("10.0.1.21"), Kind: state.Remote, Node: Ip("2001:db8::2"), MAC: macR})
	Must(t, w.Apply(s))
	setMTU(t, w.cfg.UnderlayIfindex, 1500)
	free := func(f *frame) { f.Whole = false }
	for name, in := range map[string][]byte{
		"one byte more than fits":       long("10.0.1.21", 1431, free),
		"as much as two fragments have": long("10.0.1.21", 2866, free),
		"a later fragment":              long("10.0.1.21", 1500, func(f *frame) { f.Whole, f.Fragment = false, &fragment{185, false} }),
		"an ICMP error":                 long("10.0.1.21", 1500, func(f *frame) { f.Whole, f.L4 = false, longError("10.0.1.21", 1476) }),
	} {
		t.Run(name, func(t *testing.T) {
			enter(t, w.ns)
			before := counts(t, w.opened)
			verdict, out, mark := run(t, w.objects.AliothFromPod, w.podA, in)
			if verdict != actRedirect || mark != vniRed {
				t.Errorf("verdict %d, mark %d; want %d, the VNI %d", verdict, mark, actRedirect, vniRed)
			}
			if d := cmp.Diff(one("from_pod/forwarded_remote"), added(before, counts(t, w.opened))); d != "" {
				t.Errorf("counters (-want +got):\n%s", d)
			}
			if d := cmp.Diff(append(append(macR[:], MacA[:]...), in[12:]...), out); d != "" {
				t.Errorf("packet out (-want +got):\n%s", d)
			}
		})
	}
}

func TestSegmentsThatDoNotFitAreToldOfAsOne(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	// 40 bytes of headers, and segments of so many bytes each.
	in := long("10.0.1.20", 3000, func(f *frame) {
		f.L4 = tcp{Sport: 1000, Dport: 80, Flags: flagACK, Payload: make([]byte, 2960)}
	})
	for size, reason := range map[uint32]string{1410: "forwarded_remote", 1411: "replied_too_big"} {
		enter(t, w.ns)
		before := counts(t, w.opened)
		ctx := bpf.Received(w.podA)
		ctx.GSOSize, ctx.GSOSegs = size, 3
		verdict, out, end := runContext(t, w.objects.AliothFromPod, in, ctx)
		if verdict != actRedirect {
			t.Errorf("verdict for segments of %d bytes is %d", size, verdict)
		}
		if d := cmp.Diff(one("from_pod/"+reason), added(before, counts(t, w.opened))); d != "" {
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

// What is longer than the way carried asks the routes anew, and so tells of a way
// that has become narrower, for all that comes after it.
func TestAWayThatBecameNarrowerIsForgotten(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	short, fits := long("10.0.1.20", 1300, func(f *frame) { f.Whole = false }), long("10.0.1.20", 1250, unchanged)
	pushed := func(in []byte) bool {
		_, out, _ := run(t, w.objects.AliothFromPod, w.podA, in)
		return len(out) == len(in)+50
	}
	// As if it had been asked a moment ago, however long this takes.
	believe := func() {
		var node uint32
		var way bpf.AliothKnownWay
		rows := w.objects.AliothWays.Iterate()
		if !rows.Next(&node, &way) {
			t.Fatal("no way is remembered")
		}
		way.Until = math.MaxUint64
		Must(t, w.objects.AliothWays.Put(node, way))
	}
	if !pushed(short) {
		t.Fatal("the packet does not fit the way before")
	}
	believe()
	setMTU(t, w.cfg.UnderlayIfindex, 1300)
	if !pushed(short) {
		t.Error("the way is not remembered at all")
	}
	if pushed(long("10.0.1.20", 1500, unchanged)) {
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

func TestWithoutAGatewayNobodyIsTold(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	s := w.state()
	for i := range s.Interfaces {
		s.Interfaces[i].Gateway4, s.Interfaces[i].Gateway6 = netip.Addr{}, netip.Addr{}
	}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("IPv4", w.podA, long("10.0.1.20", 1451, unchanged), "too_big"),
	})
}

func TestErrorsToAnInterfaceAreBounded(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	s := w.state()
	s.Interfaces[1].Gateway4 = Ip("10.0.1.1")
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	in := long("10.0.1.20", 1451, unchanged)
	before, began := counts(t, w.opened), time.Now()
	const sent = 2000
	for range sent {
		run(t, w.objects.AliothFromPod, w.podA, in)
	}
	// Up to 100 at once, and one more per ms: the slower the machine, the more.
	bound := uint64(102 + time.Since(began).Milliseconds())
	got := added(before, counts(t, w.opened))
	told, silent := got["from_pod/replied_too_big"], got["from_pod/too_big"]
	if told < 100 || told > bound || told+silent != sent {
		t.Errorf("of %d packets the sender was told of %d, of %d not; want from 100 to %d", sent, told, silent, bound)
	}
	f := fromA(func(f *frame) {
		f.EthSrc, f.Src, f.Dst, f.Whole = MacB, Ip("10.0.1.11"), Ip("10.0.1.20"), true
		f.L4 = udp{Sport: 1, Dport: 2, Payload: make([]byte, 1451-28)}
	})
	before = counts(t, w.opened)
	run(t, w.objects.AliothFromPod, w.podB, f.bytes())
	if d := cmp.Diff(one("from_pod/replied_too_big"), added(before, counts(t, w.opened))); d != "" {
		t.Errorf("another interface's packet at that time (-want +got):\n%s", d)
	}
}
