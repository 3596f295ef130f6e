// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netns"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// What programs return to the hook.
const (
	actOK       = 0
	actShot     = 2
	actRedirect = 7
)

// run sends one frame through a program, as if seen at the device.
func run(t *testing.T, p *ebpf.Program, ifindex int, in []byte) (verdict uint32, out []byte, mark uint32) {
	t.Helper()
	return runMarked(t, p, ifindex, in, 0)
}

// runMarked does the same with a packet that carries a mark.
func runMarked(t *testing.T, p *ebpf.Program, ifindex int, in []byte, mark uint32) (verdict uint32, out []byte, after uint32) {
	t.Helper()
	ctx := bpf.Received(ifindex)
	ctx.Mark = mark
	verdict, out, end := runContext(t, p, in, ctx)
	return verdict, out, end.Mark
}

// runContext does the same with a packet of which more is known. It returns the
// packet's context after the run.
func runContext(t *testing.T, p *ebpf.Program, in []byte, ctx bpf.Context) (verdict uint32, out []byte, end bpf.Context) {
	t.Helper()
	opts := &ebpf.RunOptions{
		Data: in, DataOut: make([]byte, len(in)+256), Context: &ctx, ContextOut: &end,
	}
	verdict, err := p.Run(opts)
	if err != nil {
		t.Fatalf("run program on %x, context %+v: %v", in, ctx, err)
	}
	corpus.add(t, p, in)
	return verdict, opts.DataOut, end
}

var (
	MacA    = state.MAC{0x02, 0, 0, 0, 0, 0xaa}
	MacB    = state.MAC{0x02, 0, 0, 0, 0, 0xbb}
	macR    = state.MAC{0x02, 0, 0, 0, 0, 0xcc}
	macNode = state.MAC{0x02, 0, 0, 0, 0, 0xdd}
	Bcast   = state.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
)

// Ip and Px read addresses and prefixes.
var (
	Ip = netip.MustParseAddr
	Px = netip.MustParsePrefix
)

const (
	vniRed  = 100 // two pods, egress closed
	vniBlue = 200 // one pod with the addresses of a red one, reached from outside
	vniOpen = 300 // egress open
	vniMain = 400 // the default VPC
)

// world is the state that the verdict tests run against.
type world struct {
	*opened
	ns                                 netns.NsHandle
	podA, podB, twin, open, main, node int
	// asked is a trial of its programs.
	asked *trial.Trial
}

// newWorld makes a world with its datapath open, whose configuration may be
// adapted from inside the world's namespace.
func newWorld(t *testing.T, adapt ...func(*programs.Config)) *world {
	t.Helper()
	ns := inNetns(t)
	w := &world{
		ns:   ns,
		podA: addPair(t, "pod-a", "pod-a-peer"), podB: addPair(t, "pod-b", "pod-b-peer"), twin: addPair(t, "twin", "twin-peer"),
		open: addPair(t, "open", "open-peer"), main: addPair(t, "main", "main-peer"), node: addPair(t, "node", "node-peer"),
	}
	cfg := programs.Config{
		PinDir: bpffs(t), CgroupRoot: childCgroup(t), VXLANIfindex: addTunnel(t, "tunnel"),
		NodeShadow4: Ip("169.254.64.1"), NodeShadow6: Ip("fd00:a110::1"), ConnectionsPerInterface: 2, Connections: fewConnections,
	}
	cfg.FragmentIfindex, cfg.FragmentPeerIfindex = addFragmenter(t)
	for _, f := range adapt {
		f(&cfg)
	}
	w.opened = openLoaded(t, cfg)
	if err := w.Apply(w.state()); err != nil {
		t.Fatalf("apply: %v", err)
	}
	return w
}

func (w *world) state() state.State {
	return state.State{
		VPCs: []state.VPC{
			{VNI: vniRed, Prefixes: []netip.Prefix{Px("10.0.0.0/16"), Px("fd10::/48")}},
			{VNI: vniBlue, Prefixes: []netip.Prefix{Px("10.0.0.0/16"), Px("fd10::/48")}, Fronted: true},
			{VNI: vniOpen, Prefixes: []netip.Prefix{Px("10.0.0.0/16"), Px("fd10::/48")}, EgressMasquerade: true},
			{VNI: vniMain, Prefixes: []netip.Prefix{Px("10.8.0.0/16"), Px("fd18::/48")}, EgressMasquerade: true, Default: true},
		},
		Subnets: []state.Subnet{
			{VNI: vniRed, Prefix: Px("10.0.1.0/24")},
			{VNI: vniRed, Prefix: Px("fd10:0:0:1::/64")},
			{VNI: vniMain, Prefix: Px("10.8.1.0/24")},
			{VNI: vniMain, Prefix: Px("fd18:0:0:1::/64")},
		},
		Interfaces: []state.Interface{
			{
				Ifindex: w.podA, VNI: vniRed, MAC: MacA, Addrs: []netip.Addr{Ip("10.0.1.10"), Ip("fd10:0:0:1::10")},
				Shadow4: Ip("169.254.64.10"), Shadow6: Ip("fd00:a110::10"), Gateway4: Ip("10.0.1.1"), Gateway6: Ip("fd10:0:0:1::1"),
			},
			{
				Ifindex: w.podB, VNI: vniRed, MAC: MacB, Addrs: []netip.Addr{Ip("10.0.1.11"), Ip("fd10:0:0:1::11")},
				Shadow4: Ip("169.254.64.11"), Shadow6: Ip("fd00:a110::11"),
			},
			{
				Ifindex: w.twin, VNI: vniBlue, MAC: MacA, Addrs: []netip.Addr{Ip("10.0.1.10"), Ip("fd10:0:0:1::10")},
				Shadow4: Ip("169.254.64.12"), Shadow6: Ip("fd00:a110::12"),
			},
			{
				Ifindex: w.open, VNI: vniOpen, MAC: MacA, Addrs: []netip.Addr{Ip("10.0.1.10"), Ip("fd10:0:0:1::10")},
				Shadow4: Ip("169.254.64.13"), Shadow6: Ip("fd00:a110::13"),
			},
			{
				Ifindex: w.main, VNI: vniMain, MAC: MacA, Addrs: []netip.Addr{Ip("10.8.1.10"), Ip("fd18:0:0:1::10")},
				Shadow4: Ip("169.254.64.14"), Shadow6: Ip("fd00:a110::14"),
			},
			{Ifindex: w.node, VNI: vniMain, MAC: macNode, Addrs: []netip.Addr{Ip("10.8.1.2"), Ip("fd18:0:0:1::2")}, Node: true},
		},
		Addresses: []state.Address{
			{VNI: vniRed, IP: Ip("10.0.1.10"), Kind: state.Local, Ifindex: w.podA, MAC: MacA},
			{VNI: vniRed, IP: Ip("fd10:0:0:1::10"), Kind: state.Local, Ifindex: w.podA, MAC: MacA},
			{VNI: vniRed, IP: Ip("10.0.1.11"), Kind: state.Local, Ifindex: w.podB, MAC: MacB},
			{VNI: vniRed, IP: Ip("fd10:0:0:1::11"), Kind: state.Local, Ifindex: w.podB, MAC: MacB},
			{VNI: vniRed, IP: Ip("10.0.1.20"), Kind: state.Remote, Node: Ip("192.0.2.2"), MAC: macR},
			{VNI: vniRed, IP: Ip("fd10:0:0:1::20"), Kind: state.Remote, Node: Ip("2001:db8::2"), MAC: macR},
			{VNI: vniRed, IP: Ip("10.0.1.1"), Kind: state.Gateway},
			{VNI: vniRed, IP: Ip("fd10:0:0:1::1"), Kind: state.Gateway},
			{VNI: vniBlue, IP: Ip("10.0.1.10"), Kind: state.Local, Ifindex: w.twin, MAC: MacA},
			{VNI: vniMain, IP: Ip("10.8.1.10"), Kind: state.Local, Ifindex: w.main, MAC: MacA},
			{VNI: vniMain, IP: Ip("fd18:0:0:1::10"), Kind: state.Local, Ifindex: w.main, MAC: MacA},
			{VNI: vniMain, IP: Ip("10.8.1.2"), Kind: state.Local, Ifindex: w.node, MAC: macNode},
			{VNI: vniMain, IP: Ip("fd18:0:0:1::2"), Kind: state.Local, Ifindex: w.node, MAC: macNode},
		},
		Nodes: []netip.Addr{Ip("192.0.2.1"), Ip("192.0.2.2"), Ip("2001:db8::2")},
		NodePorts: []state.NodePort{
			{VNI: vniOpen, Proto: state.ProtoTCP, Port: 30080, Is4: true},
			{VNI: vniOpen, Proto: state.ProtoUDP, Port: 30053, Is4: true},
			{VNI: vniOpen, Proto: state.ProtoTCP, Port: 30080},
			{VNI: vniRed, Proto: state.ProtoTCP, Port: 30081, Is4: true},
			{VNI: vniRed, Proto: state.ProtoTCP, Port: 30081},
		},
		Closed: []state.ClosedPrefix{
			{VNI: 0, Prefix: Px("169.254.64.0/18"), Class: state.ClosedShadow},
			{VNI: 0, Prefix: Px("fd00:a110::/64"), Class: state.ClosedShadow},
			{VNI: 0, Prefix: Px("192.0.2.1/32"), Class: state.ClosedNode},
			{VNI: 0, Prefix: Px("2001:db8::2/128"), Class: state.ClosedNode},
			{VNI: 0, Prefix: Px("192.0.2.100/32"), Class: state.ClosedBalancer},
			{VNI: 0, Prefix: Px("10.8.0.0/16"), Class: state.ClosedDefaultVPC},
			{VNI: 0, Prefix: Px("fd18::/48"), Class: state.ClosedDefaultVPC},
			{VNI: 0, Prefix: Px("10.96.0.0/16"), Class: state.ClosedService},
			{VNI: 0, Prefix: Px("fd96::/108"), Class: state.ClosedService},
			{VNI: 0, Prefix: Px("169.254.0.0/16"), Class: state.ClosedLinkLocal},
			{VNI: 0, Prefix: Px("fe80::/10"), Class: state.ClosedLinkLocal},
			{VNI: 0, Prefix: Px("224.0.0.0/3"), Class: state.ClosedMulticast},
			{VNI: 0, Prefix: Px("ff00::/8"), Class: state.ClosedMulticast},
			{VNI: vniOpen, Prefix: Px("203.0.113.0/24"), Class: state.ClosedDenied},
			{VNI: vniOpen, Prefix: Px("2001:db8:dead::/48"), Class: state.ClosedDenied},
		},
		Services: []state.Service{
			{VIP: Ip("10.96.0.10"), Port: 53, Proto: state.ProtoUDP, Backends: []state.Backend{{IP: Ip("10.8.1.10"), Port: 5353}}},
			{VIP: Ip("10.96.0.10"), Port: 53, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: Ip("10.8.1.10"), Port: 5353}}},
			{VIP: Ip("10.96.0.1"), Port: 443, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: Ip("192.0.2.1"), Port: 6443}}},
			{VIP: Ip("10.96.0.2"), Port: 443, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: Ip("192.0.2.1"), Port: 6443}}},
			{VIP: Ip("10.96.0.1"), Port: 444, Proto: state.ProtoTCP},
			{VIP: Ip("fd96::10"), Port: 53, Proto: state.ProtoUDP, Backends: []state.Backend{{IP: Ip("fd18:0:0:1::10"), Port: 5353}}},
		},
	}
}

// verdictCase is one packet and everything that it may cause.
type verdictCase struct {
	name    string
	device  int
	in      []byte
	verdict uint32
	out     []byte // nil: as it came in
	mark    uint32
	counts  map[string]uint64 // all others stay
}

func (w *world) check(t *testing.T, p *ebpf.Program, cases []verdictCase) {
	t.Helper()
	var trial *trial.Trial
	if p == w.objects.AliothFromPod {
		trial = w.trial(t)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			enter(t, w.ns)
			if trial != nil {
				w.checkTrial(t, trial, c)
			}
			before := counts(t, w.opened)
			verdict, out, mark := run(t, p, c.device, c.in)
			if verdict != c.verdict {
				t.Errorf("verdict is %d, want %d", verdict, c.verdict)
			}
			want := c.out
			if want == nil {
				want = c.in
			}
			if d := cmp.Diff(want, out); d != "" {
				t.Errorf("packet out (-want +got):\n%s", d)
			}
			if mark != c.mark {
				t.Errorf("mark is %#x, want %#x", mark, c.mark)
			}
			after := counts(t, w.opened)
			if d := cmp.Diff(c.counts, added(before, after)); d != "" {
				t.Errorf("counters (-want +got):\n%s", d)
			}
			if d := cmp.Diff(onlyDrops(after), countedTwice(t, w.opened)); d != "" {
				t.Errorf("drops by device and VPC (-all +theirs):\n%s", d)
			}
		})
	}
}

// one is the expectation of a single counter.
func one(name string) map[string]uint64 { return map[string]uint64{name: 1} }

// dropped is a packet from a pod that is dropped unchanged.
func dropped(name string, device int, in []byte, reason string) verdictCase {
	return verdictCase{name: name, device: device, in: in, verdict: actShot, counts: one("from_pod/" + reason)}
}

// from is an ordinary packet of pod A.
func fromA(mutate func(*frame)) frame {
	f := frame{
		EthDst: state.VirtualMAC, EthSrc: MacA, Src: Ip("10.0.1.10"), Dst: Ip("10.0.1.11"),
		L4: tcp{Sport: 1000, Dport: 80, Flags: flagSYN, Payload: []byte("payload")},
	}
	mutate(&f)
	return f
}

func fromA6(mutate func(*frame)) frame {
	return fromA(func(f *frame) {
		f.Src, f.Dst = Ip("fd10:0:0:1::10"), Ip("fd10:0:0:1::11")
		mutate(f)
	})
}

// with returns a changed copy, for the packet that is expected to come out.
func (f frame) with(mutate func(*frame)) frame {
	mutate(&f)
	return f
}

func unchanged(*frame) {}

func TestPacketsInsideAVPCAreForwarded(t *testing.T) {
	w := newWorld(t)
	delivered := func(f *frame) { f.EthDst, f.EthSrc = MacB, state.VirtualMAC }
	tunnelled := func(f *frame) { f.EthDst, f.EthSrc = macR, MacA }
	var cases []verdictCase
	add := func(name string, f frame, out func(*frame), reason string) {
		cases = append(cases, verdictCase{
			name: name, device: w.podA, in: f.bytes(), out: f.with(out).bytes(),
			verdict: actRedirect, counts: one("from_pod/" + reason),
		})
	}
	local, remote := "forwarded_local", "forwarded_remote"
	add("IPv4 to a pod of this node", fromA(unchanged), delivered, local)
	add("IPv6 to a pod of this node", fromA6(unchanged), delivered, local)
	add("IPv4 to a pod of another node", fromA(func(f *frame) { f.Dst = Ip("10.0.1.20") }), tunnelled, remote)
	add("IPv6 to a pod of another node", fromA6(func(f *frame) { f.Dst = Ip("fd10:0:0:1::20") }), tunnelled, remote)
	add("a first IPv4 fragment", fromA(func(f *frame) { f.Fragment = &fragment{0, true} }), delivered, local)
	add("a later IPv4 fragment", fromA(func(f *frame) {
		f.Fragment, f.L4 = &fragment{185, false}, raw{state.ProtoUDP, []byte("the rest")}
	}), delivered, local)
	add("a later IPv6 fragment", fromA6(func(f *frame) {
		f.Fragment, f.L4 = &fragment{185, false}, raw{state.ProtoUDP, []byte("the rest")}
	}), delivered, local)
	add("IPv4 with options", fromA(func(f *frame) { f.Options = []byte{1, 1, 1, 0} }), delivered, local)
	add("IPv6 with extension headers", fromA6(func(f *frame) {
		f.Extensions = []extension{{0, make([]byte, 6)}, {60, make([]byte, 14)}, {51, make([]byte, 22)}}
	}), delivered, local)
	add("an IPv4 ICMP error", fromA(func(f *frame) {
		f.L4 = quoting(icmp{Type: 3, Code: 4}, frame{Src: f.Dst, Dst: f.Src, L4: udp{Sport: 1, Dport: 2}})
	}), delivered, local)
	add("an ICMPv6 error", fromA6(func(f *frame) {
		f.L4 = quoting(icmp{V6: true, Type: 2}, frame{Src: f.Dst, Dst: f.Src, L4: udp{Sport: 1, Dport: 2}})
	}), delivered, local)
	add("a protocol that nobody knows", fromA(func(f *frame) { f.L4 = raw{253, []byte("experiment")} }), delivered, local)
	add("to a stale Ethernet address", fromA(func(f *frame) { f.EthDst = macR }), delivered, local)
	w.check(t, w.objects.AliothFromPod, cases)
}
