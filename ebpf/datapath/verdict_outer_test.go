// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// actNext hands a packet to the next program of a hook, and to the stack.
const actNext = 0xffffffff

var macUplink = state.MAC{0x02, 0, 0, 0, 0, 0xee}

// onUnderlay gives a world the device with the node's tunnel addresses.
func onUnderlay(t *testing.T) func(*programs.Config) {
	return func(cfg *programs.Config) {
		enable(t, "net/ipv4/ip_forward")
		cfg.UnderlayIfindex = addLink(t, &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "underlay", MTU: 1500, HardwareAddr: macUplink[:]}, PeerName: "underlay-peer",
		})
		// Not for all devices: each would report that it is a router, at any moment.
		enable(t, "net/ipv6/conf/underlay/forwarding")
		cfg.UnderlayIfindex6 = cfg.UnderlayIfindex
		addAddr(t, cfg.UnderlayIfindex, Px("192.0.2.1/24"))
		addAddr(t, cfg.UnderlayIfindex, Px("2001:db8::1/64"))
		cfg.TunnelSource4, cfg.TunnelSource6 = Ip("192.0.2.1"), Ip("2001:db8::1")
	}
}

// trafficClass sets the byte that holds the congestion bits.
func trafficClass(f []byte, class uint8) []byte {
	f = bytes.Clone(f)
	if f[14]>>4 == 6 {
		f[14], f[15] = f[14]&0xf0|class>>4, f[15]&0x0f|class<<4
		return f
	}
	f[15], f[24], f[25] = class, 0, 0
	binary.BigEndian.PutUint16(f[24:], fold(sum(0, f[14:34])))
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
	want := frame{
		EthDst: state.VirtualMAC, EthSrc: MacA, Src: Ip("192.0.2.1"), Dst: Ip("192.0.2.2"), Hops: 8,
		L4: udp{Sport: source, Dport: programs.DefaultTunnelPort, NoChecksum: true, Payload: append(header, out[50:]...)},
	}.bytes()
	copy(want[18:22], []byte{0, 0, 0x40, 0}) // no identification, don't fragment
	want = trafficClass(want, tos)
	if d := cmp.Diff(want[14:50], out[14:50]); d != "" {
		t.Errorf("outer headers (-want +got):\n%s", d)
	}
}

func TestOuterHeadersArePushedWhereTheRouteFits(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	s := w.state()
	for to, node := range map[string]string{"fd10:0:0:1::21": "192.0.2.2", "10.0.1.22": "198.51.100.9"} {
		s.Addresses = append(s.Addresses, state.Address{VNI: vniRed, IP: Ip(to), Kind: state.Remote, Node: Ip(node), MAC: macR})
	}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	to := func(dst string, size int) []byte {
		make4, d := fromA, Ip(dst)
		if d.Is6() {
			make4 = fromA6
		}
		return make4(func(f *frame) { f.Dst, f.L4 = d, udp{Sport: 1000, Dport: 80, Payload: make([]byte, size)} }).bytes()
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
			enter(t, w.ns)
			before := counts(t, w.opened)
			verdict, out, _ := run(t, w.objects.AliothFromPod, w.podA, c.in)
			if verdict != actRedirect {
				t.Errorf("verdict is %d, want %d", verdict, actRedirect)
			}
			if d := cmp.Diff(one("from_pod/forwarded_remote"), added(before, counts(t, w.opened))); d != "" {
				t.Errorf("counters (-want +got):\n%s", d)
			}
			inner := out
			if c.pushed {
				checkOuter(t, out, vniRed, c.tos)
				inner = out[50:]
			}
			want := append(append(macR[:], MacA[:]...), c.in[12:]...)
			if d := cmp.Diff(want, inner); d != "" {
				t.Errorf("inner packet (-want +got):\n%s", d)
			}
		})
	}
}

// A route that was asked a moment ago is not asked again.
func TestTheWayToANodeFollowsItsRoute(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	in := fromA(func(f *frame) {
		f.Dst, f.L4 = Ip("10.0.1.20"), udp{Sport: 1000, Dport: 80, Payload: make([]byte, 1400)}
	}).bytes()
	pushed := func() bool {
		_, out, _ := run(t, w.objects.AliothFromPod, w.podA, in)
		return len(out) > len(in)
	}
	for range 2 { // the second time from memory
		if !pushed() {
			t.Fatal("no outer headers are pushed")
		}
	}
	setMTU(t, w.cfg.UnderlayIfindex, 1400)
	eventually(t, "a packet no longer fits", func() bool { return !pushed() })
	setMTU(t, w.cfg.UnderlayIfindex, 1500)
	eventually(t, "it fits again", pushed)
}

func TestAFlowHasOneSourcePort(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	for name, l4 := range map[string]transport{
		"ICMP": icmp{Type: 8, Body: []byte{0, 1, 0, 1}}, "UDP": udp{Sport: 1000, Dport: 80}, "TCP": tcp{Sport: 1000, Dport: 80},
	} {
		in := fromA(func(f *frame) { f.Dst, f.L4 = Ip("10.0.1.20"), l4 }).bytes()
		_, first, _ := run(t, w.objects.AliothFromPod, w.podA, in)
		_, second, _ := run(t, w.objects.AliothFromPod, w.podA, in)
		checkOuter(t, first, vniRed, 0)
		if !bytes.Equal(first[34:36], second[34:36]) {
			t.Errorf("%s: source ports %x and %x", name, first[34:36], second[34:36])
		}
	}
}

// wrapped is an inner packet in the tunnel of a node.
type wrapped struct {
	eth   state.MAC
	from  netip.Addr
	to    netip.Addr
	port  uint16
	flags uint8
	vni   uint32
	check bool
	inner []byte
	frag  *fragment
	opts  []byte
}

func (p wrapped) bytes() []byte {
	header := binary.BigEndian.AppendUint32([]byte{p.flags, 0, 0, 0}, p.vni<<8)
	return frame{
		EthDst: p.eth, EthSrc: macR, Src: p.from, Dst: p.to, Fragment: p.frag, Options: p.opts,
		L4: udp{Sport: 50000, Dport: p.port, NoChecksum: !p.check, Payload: append(header, p.inner...)},
	}.bytes()
}

func TestOuterHeadersArePoppedFromUsualPackets(t *testing.T) {
	w := newWorld(t, onUnderlay(t))
	inner := frame{
		EthDst: MacA, EthSrc: macR, Src: Ip("10.0.1.20"), Dst: Ip("10.0.1.10"),
		L4: tcp{Sport: 1000, Dport: 80, Flags: flagSYN, Payload: []byte("payload")},
	}
	inner6 := inner.with(func(f *frame) { f.Src, f.Dst = Ip("fd10:0:0:1::20"), Ip("fd10:0:0:1::10") })
	usual := wrapped{eth: macUplink, from: Ip("192.0.2.2"), to: Ip("192.0.2.1"), port: programs.DefaultTunnelPort, flags: 8, vni: vniRed}
	in := func(change func(*wrapped)) []byte {
		p := usual
		p.inner = inner.bytes()
		change(&p)
		return p.bytes()
	}
	holding := func(f frame) []byte { return in(func(p *wrapped) { p.inner = f.bytes() }) }
	var cases []verdictCase
	delivered := func(name string, packet []byte, f frame) {
		cases = append(cases, verdictCase{
			name: name, device: w.cfg.UnderlayIfindex, in: packet, verdict: actRedirect,
			out:    f.with(func(f *frame) { f.EthDst, f.EthSrc = MacA, state.VirtualMAC }).bytes(),
			counts: one("from_tunnel/forwarded_local"),
		})
	}
	refused := func(name string, f frame, reason string) {
		cases = append(cases, verdictCase{
			name: name, device: w.cfg.UnderlayIfindex, in: holding(f), out: f.bytes(), verdict: actShot, counts: one("from_tunnel/" + reason),
		})
	}
	left := func(name string, packet []byte) {
		cases = append(cases, verdictCase{
			name: name, device: w.cfg.UnderlayIfindex, in: packet, verdict: actNext, counts: map[string]uint64{},
		})
	}
	delivered("IPv4", holding(inner), inner)
	if popsIPv6(t) {
		delivered("IPv6", holding(inner6), inner6)
	} else {
		left("IPv6", holding(inner6))
	}
	delivered("to the same address in another VPC", in(func(p *wrapped) { p.vni = vniBlue }), inner)
	refused("under an address of a pod of this node", inner.with(func(f *frame) { f.Src = Ip("10.0.1.11") }), "spoofed_local")
	refused("an address nobody has", inner.with(func(f *frame) { f.Dst = Ip("10.0.1.99") }), "no_endpoint")
	refused("a broadcast frame", inner.with(func(f *frame) { f.EthDst = Bcast }), "tunnel_flood")
	left("from no node", in(func(p *wrapped) { p.from = Ip("192.0.2.66") }))
	left("of a VPC that is not here", in(func(p *wrapped) { p.vni = 999 }))
	left("to another address of the node", in(func(p *wrapped) { p.to = Ip("192.0.2.9") }))
	left("to another port", in(func(p *wrapped) { p.port = 8472 }))
	left("for another Ethernet address", in(func(p *wrapped) { p.eth = MacB }))
	left("with a checksum to verify", in(func(p *wrapped) { p.check = true }))
	left("without a VNI", in(func(p *wrapped) { p.flags = 0 }))
	left("with flags of an extension", in(func(p *wrapped) { p.flags = 0x0c }))
	left("a fragment", in(func(p *wrapped) { p.frag = &fragment{0, true} }))
	left("with options", in(func(p *wrapped) { p.opts = []byte{1, 1, 1, 0} }))
	left("marked on the way", trafficClass(holding(inner), 3))
	left("with ARP inside", in(func(p *wrapped) {
		p.inner = arpFrame(Bcast, macR, 1, macR, Ip("10.0.1.20"), state.MAC{}, Ip("10.0.1.10"))
	}))
	left("too short", in(func(p *wrapped) { p.inner = p.inner[:10] }))
	left("no tunnel's packet at all", inner.with(func(f *frame) { f.EthDst, f.Dst = macUplink, Ip("192.0.2.1") }).bytes())
	w.check(t, w.objects.AliothFromUnderlay, cases)
}
