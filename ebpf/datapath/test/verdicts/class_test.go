// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// situation is a packet of the node 192.0.2.2, by its ends in the red VPC or another one,
// and the results by class.
type situation struct {
	name                         string
	vni                          uint32
	from, to                     string // the last group of both families
	direct, returned             string
	toDivider, toBouncer, bounce string // bounce: from a bouncer
}

const otherVNI = 999

// The table of docs/design/141, for a node that plays no role.
var situations = []situation{
	{"to a pod of this node", world.VNIRed, "20", "10", "forwarded_local", "returned_foreign", "forwarded_local", "forwarded_local", "forwarded_local"},
	{"from a pod of this node to another", world.VNIRed, "11", "10", "spoofed_local", "returned_home", "spoofed_local", "spoofed_local", "spoofed_local"},
	{
		"from a pod of this node to one of the sending node",
		world.VNIRed,
		"11",
		"20",
		"spoofed_local",
		"stale_row",
		"spoofed_local",
		"spoofed_local",
		"spoofed_local",
	},
	{
		"from a pod of this node to one of a third node",
		world.VNIRed,
		"11",
		"30",
		"spoofed_local",
		"returned_foreign",
		"spoofed_local",
		"spoofed_local",
		"spoofed_local",
	},
	{"from a pod of this node to nobody", world.VNIRed, "11", "99", "spoofed_local", "returned_foreign", "spoofed_local", "spoofed_local", "spoofed_local"},
	{"from a pod of this node to the gateway", world.VNIRed, "11", "1", "spoofed_local", "returned_foreign", "spoofed_local", "spoofed_local", "spoofed_local"},
	{"to nobody", world.VNIRed, "20", "99", "returned", "returned_foreign", "not_member", "not_member", "wrong_node"},
	{"from nobody to nobody", world.VNIRed, "98", "99", "returned", "returned_foreign", "not_member", "not_member", "wrong_node"},
	{"to a pod of the sending node", world.VNIRed, "21", "20", "returned", "returned_foreign", "not_member", "not_member", "wrong_node"},
	{"to a pod of a third node", world.VNIRed, "20", "30", "returned", "returned_foreign", "not_member", "not_member", "wrong_node"},
	{"to the gateway", world.VNIRed, "20", "1", "wrong_node", "returned_foreign", "not_member", "not_member", "wrong_node"},
	{"to an address of another CNI plugin", world.VNIRed, "20", "66", "held_outside", "returned_foreign", "not_member", "not_member", "wrong_node"},
	{"to an address that another VPC has here", world.VNIBlue, "20", "11", "returned", "returned_foreign", "not_member", "not_member", "wrong_node"},
	{"in a VPC that is not here", otherVNI, "20", "10", "returned", "unknown_vni", "unknown_vni", "unknown_vni", "unknown_vni"},
	{"in a VPC that is not here, from an address of a pod here", otherVNI, "11", "10", "returned", "unknown_vni", "unknown_vni", "unknown_vni", "unknown_vni"},
}

// byClass returns the result for each inner Ethernet source. A source that is not a class counts
// as direct.
func (s situation) byClass() map[state.MAC]string {
	results := map[state.MAC]string{
		world.ClassDirect: s.direct, world.ClassReturned: s.returned,
		world.ClassToDivider: s.toDivider, world.ClassToBouncer: s.toBouncer, world.ClassFromBouncer: s.bounce,
		world.MacR: s.direct, world.MacA: s.direct, state.VirtualMAC: s.direct,
		{}:                               s.direct,
		{0x02, 0xa1, 0x07, 0, 0x02, 5}:   s.direct,
		{0x02, 0xa1, 0x07, 0, 0x02, 255}: s.direct,
		{0x02, 0xa1, 0x07, 0, 0x03, 1}:   s.direct,
		{0x02, 0xa1, 0x07, 1, 0x02, 1}:   s.direct,
		{0x02, 0xa1, 0x06, 0, 0x02, 1}:   s.direct,
		{0x02, 0xa0, 0x07, 0, 0x02, 1}:   s.direct,
		{0x06, 0xa1, 0x07, 0, 0x02, 1}:   s.direct,
		{0x02, 0xa3, 0x07, 0, 0x02, 1}:   s.direct,
		{0x03, 0xa2, 0x07, 0, 0x02, 1}:   s.direct,
	}
	for class, result := range []string{s.direct, s.returned, s.toDivider, s.toBouncer, s.bounce, s.direct, s.direct} {
		results[world.IdentitySource(0, 0, uint8(class))] = result
		results[world.IdentitySource(0x070002, world.Unjudged, uint8(class))] = result
		results[world.IdentitySource(1<<24-1, 0xf0, uint8(class))] = result
	}
	results[world.IdentitySource(4711, 0xf0, 15)] = s.direct
	return results
}

// frame returns the packet, sent by an inner Ethernet source.
func (s situation) frame(prefix string, source state.MAC) wire.Frame {
	return wire.Frame{
		EthDst: world.MacR, EthSrc: source, Src: wire.IP(prefix + s.from), Dst: wire.IP(prefix + s.to),
		L4: wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN, Payload: []byte("payload")},
	}
}

// out returns the verdict and the frame that leaves the program.
func out(f wire.Frame, reason string) (verdict uint32, frame wire.Frame) {
	switch reason {
	case "forwarded_local":
		return world.ActRedirect, f.With(func(f *wire.Frame) { f.EthDst, f.EthSrc = world.MacA, state.VirtualMAC })
	case "returned":
		return world.ActRedirect, f.With(func(f *wire.Frame) { f.EthSrc = world.WithClass(f.EthSrc, world.ClassOfReturned) })
	}
	return world.ActShot, f
}

func classWorld(t *testing.T) *world.World {
	t.Helper()
	w := world.New(t, world.OnUnderlay(t))
	s := w.State()
	s.Nodes = append(s.Nodes, wire.IP("192.0.2.3"))
	remote := func(ip, node string) state.Address {
		return state.Address{VNI: world.VNIRed, IP: wire.IP(ip), Kind: state.Remote, Node: wire.IP(node), MAC: world.MacR}
	}
	s.Addresses = append(s.Addresses, remote("10.0.1.30", "192.0.2.3"), remote("fd10:0:0:1::30", "192.0.2.3"))
	for i, a := range s.Addresses {
		if a.IP == wire.IP("fd10:0:0:1::20") {
			s.Addresses[i].Node = wire.IP("192.0.2.2")
		}
	}
	bpftest.Must(t, w.Apply(s))
	return w
}

func TestPacketClass_EachSituation_VerdictAsDesigned(t *testing.T) {
	w := classWorld(t)
	for _, vni := range []uint32{world.VNIRed, world.VNIBlue, otherVNI} {
		behind := world.Tunnelled(t, w, vni, wire.IP("192.0.2.2"))
		for _, s := range situations {
			if s.vni != vni {
				continue
			}
			for family, prefix := range map[string]string{"IPv4": "10.0.1.", "IPv6": "fd10:0:0:1::"} {
				var device, uplink []world.Case
				for source, reason := range s.byClass() {
					f := s.frame(prefix, source)
					verdict, frame := out(f, reason)
					c := world.Case{
						Name: strings.Join([]string{s.name, family, source.String()}, ", "), Device: w.Config.VXLANIfindex,
						In: f.Bytes(), Verdict: verdict, Out: frame.Bytes(), Counts: world.One("from_tunnel/" + reason),
					}
					device = append(device, c)
					uplink = append(uplink, onUplink(t, w, c, s.vni))
				}
				w.Expect(t, behind, device)
				w.Expect(t, w.Objects.AliothFromUnderlay, uplink)
			}
		}
	}
}

// onUplink returns the same packet at its arrival. A packet of a VPC that is not here goes on to
// the tunnel's device, and so does IPv6 if the kernel can't remove its outer headers.
func onUplink(t *testing.T, w *world.World, c world.Case, vni uint32) world.Case {
	t.Helper()
	c.Device = w.Config.UnderlayIfindex
	v6 := c.In[12] == 0x86
	c.In = world.Wrapped{
		Eth: world.MacUplink, From: wire.IP("192.0.2.2"), To: wire.IP("192.0.2.1"), Port: programs.DefaultTunnelPort, Flags: 8, VNI: vni, Inner: c.In,
	}.Bytes()
	if vni == otherVNI || v6 && !bpftest.PopsIPv6(t) {
		c.Verdict, c.Out, c.Counts = world.ActNext, nil, map[string]uint64{}
	}
	return c
}

// A returned packet equals the received packet, to the last bit.
func TestReturnedPacket_AnyContent_EqualsReceived(t *testing.T) {
	w := classWorld(t)
	to := func(dst string, change func(*wire.Frame)) []byte {
		f := wire.Frame{EthDst: world.MacA, EthSrc: world.MacR, Src: wire.IP("10.0.1.20"), Dst: wire.IP(dst), L4: wire.UDP{Sport: 1000, Dport: 80, NoChecksum: true}}
		if f.Dst.Is6() {
			f.Src, f.L4 = wire.IP("fd10:0:0:1::20"), wire.UDP{Sport: 1000, Dport: 80}
		}
		change(&f)
		return f.Bytes()
	}
	const nobody, nobody6 = "10.0.1.99", "fd10:0:0:1::99"
	frames := map[string][]byte{
		"a congestion mark":       trafficClass(to(nobody, world.Unchanged), 3),
		"a congestion mark, IPv6": trafficClass(to(nobody6, world.Unchanged), 3),
		"the last hop":            to(nobody, func(f *wire.Frame) { f.Hops = 1 }),
		"options":                 to(nobody, func(f *wire.Frame) { f.Options = []byte{1, 1, 1, 0} }),
		"a first fragment":        to(nobody, func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} }),
		"a later fragment": to(nobody, func(f *wire.Frame) {
			f.Fragment, f.L4 = &wire.Fragment{Offset: 185, More: false}, wire.Raw{Proto: state.ProtoUDP, Data: []byte("the rest")}
		}),
		"a later fragment, IPv6": to(nobody6, func(f *wire.Frame) {
			f.Fragment, f.L4 = &wire.Fragment{Offset: 185, More: false}, wire.Raw{Proto: state.ProtoUDP, Data: []byte("the rest")}
		}),
		"extension headers": to(nobody6, func(f *wire.Frame) {
			f.Extensions = []wire.Extension{{Type: 0, Body: make([]byte, 6)}, {Type: 60, Body: make([]byte, 14)}}
		}),
		"an unknown protocol": to(nobody, func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 253, Data: []byte("anything")} }),
		"an ICMP error":       to(nobody, func(f *wire.Frame) { f.L4 = wire.ICMP{Type: 3, Code: 3, Body: make([]byte, 32)} }),
		"bytes behind it":     append(to(nobody, world.Unchanged), 1, 2, 3),
	}
	var cases []world.Case
	for name, in := range frames {
		cases = append(cases, world.Case{
			Name: name, Device: w.Config.VXLANIfindex, In: in, Verdict: world.ActRedirect, Counts: world.One("from_tunnel/returned"),
			Out: append(append(in[:6:6], world.ClassReturned[:]...), in[12:]...),
		})
	}
	for _, vni := range []uint32{world.VNIRed, otherVNI} {
		for _, node := range []string{"192.0.2.2", "2001:db8::2"} {
			w.Expect(t, world.Tunnelled(t, w, vni, wire.IP(node)), cases)
		}
	}
}

// No mark of the node's stack is left on the outer packet.
func TestReturnedPacket_NodeStackMark_Cleared(t *testing.T) {
	w := classWorld(t)
	in := situation{from: "20", to: "99"}.frame("10.0.1.", world.ClassDirect).Bytes()
	for mark, want := range map[uint32]uint32{state.MarkEgress: 0, state.MarkNode | 0x4000: 0x4000} {
		verdict, _, after := world.RunMarked(t, world.Tunnelled(t, w, world.VNIRed, wire.IP("192.0.2.2")), w.Config.VXLANIfindex, in, mark)
		if verdict != world.ActRedirect || after != want {
			t.Errorf("mark %#x: verdict %d, mark %#x; want %#x", mark, verdict, after, want)
		}
	}
}

// Over IPv4 the tunnel's device fragments packets that do not fit; over IPv6 no device does.
func TestReturnedPacket_TooBig_OnlyOverIPv4(t *testing.T) {
	w := classWorld(t)
	bpftest.SetMTU(t, w.Config.UnderlayIfindex, 1350)
	sized := func(prefix string, size int) wire.Frame {
		f := situation{from: "20", to: "99"}.frame(prefix, world.ClassDirect)
		header := 20
		if f.Src.Is6() {
			header = 40
		}
		return f.With(func(f *wire.Frame) {
			f.Whole, f.L4 = true, wire.UDP{Sport: 1, Dport: 2, Payload: make([]byte, size-header-8)}
		})
	}
	for node, c := range map[string]struct {
		size   int
		reason string
	}{
		"192.0.2.2": {1500, "returned"}, "2001:db8::2": {1281, "too_big"},
	} {
		program := world.Tunnelled(t, w, world.VNIRed, wire.IP(node))
		for _, prefix := range []string{"10.0.1.", "fd10:0:0:1::"} {
			w.Expect(t, program, []world.Case{
				sent("what fits back to "+node, w, sized(prefix, 1280), "returned"), sent("one byte more", w, sized(prefix, c.size), c.reason),
			})
		}
	}
}

// sent returns a packet from the tunnel with its result.
func sent(name string, w *world.World, f wire.Frame, reason string) world.Case {
	verdict, frame := out(f, reason)
	return world.Case{Name: name, Device: w.Config.VXLANIfindex, In: f.Bytes(), Verdict: verdict, Out: frame.Bytes(), Counts: world.One("from_tunnel/" + reason)}
}

// A node without a row is answered by nothing, whatever the class.
func TestReturn_SenderNoNode_Dropped(t *testing.T) {
	w := classWorld(t)
	for _, stranger := range []netip.Addr{wire.IP("192.0.2.66"), wire.IP("2001:db8::66")} {
		for _, vni := range []uint32{world.VNIRed, otherVNI} {
			program := world.Tunnelled(t, w, vni, stranger)
			for _, source := range []state.MAC{world.ClassDirect, world.ClassReturned, world.ClassToBouncer, world.MacR, world.IdentitySource(4711, 0, 0)} {
				w.Expect(t, program, []world.Case{sent(source.String(), w, situation{from: "20", to: "99"}.frame("10.0.1.", source), "unknown_node")})
			}
		}
	}
}
