// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestTunnelPacket_UnknownNode_Dropped(t *testing.T) {
	w := world.New(t)
	inner := func(mutate func(*wire.Frame)) wire.Frame {
		f := wire.Frame{
			EthDst: world.MacA, EthSrc: world.MacR, Src: wire.IP("10.0.1.20"), Dst: wire.IP("10.0.1.10"),
			L4: wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN},
		}
		mutate(&f)
		return f
	}
	inner6 := func(mutate func(*wire.Frame)) wire.Frame {
		return inner(func(f *wire.Frame) {
			f.Src, f.Dst = wire.IP("fd10:0:0:1::20"), wire.IP("fd10:0:0:1::10")
			mutate(f)
		})
	}
	delivered := func(name string, f wire.Frame, mac state.MAC) world.Case {
		return world.Case{
			Name: name, Device: w.PodA, In: f.Bytes(), Verdict: world.ActRedirect, Counts: world.One("from_tunnel/forwarded_local"),
			Out: f.With(func(f *wire.Frame) { f.EthDst, f.EthSrc = mac, state.VirtualMAC }).Bytes(),
		}
	}
	refused := func(name string, in []byte, reason string) world.Case {
		return world.Case{Name: name, Device: w.PodA, In: in, Verdict: world.ActShot, Counts: world.One("from_tunnel/" + reason)}
	}
	returned := func(name string, f wire.Frame) world.Case {
		return world.Case{
			Name: name, Device: w.PodA, In: f.Bytes(), Verdict: world.ActRedirect, Counts: world.One("from_tunnel/returned"),
			Out: f.With(func(f *wire.Frame) { f.EthSrc = world.ClassReturned }).Bytes(),
		}
	}
	peer, peer6, stranger := wire.IP("192.0.2.2"), wire.IP("2001:db8::2"), wire.IP("192.0.2.66")
	ok, ok6 := inner(world.Unchanged), inner6(world.Unchanged)

	w.Expect(t, world.Tunnelled(t, w, world.VNIRed, peer), []world.Case{
		delivered("IPv4", ok, world.MacA),
		delivered("IPv6", ok6, world.MacA),
		delivered("a later fragment", inner(func(f *wire.Frame) {
			f.Fragment, f.L4 = &wire.Fragment{Offset: 100, More: false}, wire.Raw{Proto: state.ProtoUDP, Data: []byte("rest")}
		}), world.MacA),
		returned("an address of another node", inner(func(f *wire.Frame) { f.Src, f.Dst = wire.IP("10.0.1.21"), wire.IP("10.0.1.20") })),
		returned("an address nobody has", inner(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") })),
		refused("an address of another CNI plugin", inner(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.66") }).Bytes(), "held_outside"),
		returned("an address of no subnet", inner(func(f *wire.Frame) { f.Dst = wire.IP("10.0.9.1") })),
		refused("the gateway", inner(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.1") }).Bytes(), "wrong_node"),
		returned("the node's shadow", inner(func(f *wire.Frame) { f.Dst = wire.IP(world.NodeShadow) })),
		refused("under an address of a pod of this node", inner(func(f *wire.Frame) { f.Src = wire.IP("10.0.1.11") }).Bytes(), "spoofed_local"),
		refused("ARP", wire.ARP(world.Bcast, world.MacR, 1, world.MacR, wire.IP("10.0.1.20"), state.MAC{}, wire.IP("10.0.1.10")), "tunnel_flood"),
		refused("a solicitation", inner6(func(f *wire.Frame) { f.Hops, f.L4 = 255, solicitation("fd10:0:0:1::10") }).Bytes(), "tunnel_flood"),
		refused("an advertisement to a pod", inner6(func(f *wire.Frame) { f.Hops, f.L4 = 255, advertisement("fd10:0:0:1::1") }).Bytes(), "tunnel_flood"),
		refused("multicast", inner(func(f *wire.Frame) { f.Dst = wire.IP("224.0.0.1") }).Bytes(), "tunnel_flood"),
		refused("a broadcast frame", inner(func(f *wire.Frame) { f.EthDst = world.Bcast }).Bytes(), "tunnel_flood"),
		refused("another ethertype", inner(func(f *wire.Frame) { f.EtherType = 0x88cc }).Bytes(), "ethertype"),
		refused("a VLAN tag", append(append(ok.Bytes()[:12:12], 0x81, 0, 0, 5), ok.Bytes()[12:]...), "vlan"),
	})
	w.Expect(t, world.Tunnelled(t, w, world.VNIRed, peer6), []world.Case{delivered("over an IPv6 underlay", ok, world.MacA)})
	w.Expect(t, world.Tunnelled(t, w, world.VNIRed, stranger), []world.Case{refused("from no node", ok.Bytes(), "unknown_node")})
	w.Expect(t, world.Tunnelled(t, w, world.VNIRed, wire.IP("2001:db8::66")), []world.Case{refused("from no node over IPv6", ok.Bytes(), "unknown_node")})
	w.Expect(t, world.Tunnelled(t, w, 999, peer), []world.Case{
		returned("of a VPC that is not here", ok),
		refused(
			"of a VPC that is not here, ARP",
			wire.ARP(world.Bcast, world.MacR, 1, world.MacR, wire.IP("10.0.1.20"), state.MAC{}, wire.IP("10.0.1.10")),
			"tunnel_flood",
		),
		refused("of a VPC that is not here, cut off", ok.Bytes()[:40], "bad_header"),
	})
	w.Expect(t, world.Tunnelled(t, w, world.VNIBlue, peer), []world.Case{
		delivered("to the same address in another VPC", ok, world.MacA),
		returned("to an address that only another VPC has", inner(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.11") })),
	})
	w.Expect(t, w.Objects.AliothFromTunnel, []world.Case{refused("without a tunnel", ok.Bytes(), "no_tunnel_key")})
}

func TestTunnelPacket_NodeInterface_Reached(t *testing.T) {
	w := world.New(t)
	f := wire.Frame{EthDst: world.MacNode, EthSrc: world.MacR, Src: wire.IP("10.8.1.20"), Dst: wire.IP("10.8.1.2"), L4: wire.UDP{Sport: 53, Dport: 1000}}
	w.Expect(t, world.Tunnelled(t, w, world.VNIMain, wire.IP("192.0.2.2")), []world.Case{{
		Name: "from a pod of another node", Device: w.PodA, In: f.Bytes(), Verdict: world.ActRedirect,
		Out:    f.With(func(f *wire.Frame) { f.EthSrc = state.VirtualMAC }).Bytes(),
		Counts: world.One("from_tunnel/forwarded_local"),
	}})
}
