// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// tunnelled returns a program that gives a packet the tunnel key which the
// VXLAN device would give it, and goes on to alioth_from_tunnel.
func tunnelled(t *testing.T, w *world, vni uint32, node netip.Addr) *ebpf.Program {
	t.Helper()
	return tunnelledTo(t, w.objects.AliothFromTunnel, vni, node)
}

func tunnelledTo(t *testing.T, next *ebpf.Program, vni uint32, node netip.Addr) *ebpf.Program {
	t.Helper()
	program, release, err := bpf.WithTunnelKey(next, vni, node)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(release)
	return program
}

func TestOnlyKnownNodesPutPacketsIntoAVPC(t *testing.T) {
	w := newWorld(t)
	inner := func(mutate func(*frame)) frame {
		f := frame{
			EthDst: MacA, EthSrc: macR, Src: Ip("10.0.1.20"), Dst: Ip("10.0.1.10"),
			L4: tcp{Sport: 1000, Dport: 80, Flags: flagSYN},
		}
		mutate(&f)
		return f
	}
	inner6 := func(mutate func(*frame)) frame {
		return inner(func(f *frame) {
			f.Src, f.Dst = Ip("fd10:0:0:1::20"), Ip("fd10:0:0:1::10")
			mutate(f)
		})
	}
	delivered := func(name string, f frame, mac state.MAC) verdictCase {
		return verdictCase{
			name: name, device: w.podA, in: f.bytes(), verdict: actRedirect, counts: one("from_tunnel/forwarded_local"),
			out: f.with(func(f *frame) { f.EthDst, f.EthSrc = mac, state.VirtualMAC }).bytes(),
		}
	}
	refused := func(name string, in []byte, reason string) verdictCase {
		return verdictCase{name: name, device: w.podA, in: in, verdict: actShot, counts: one("from_tunnel/" + reason)}
	}
	peer, peer6, stranger := Ip("192.0.2.2"), Ip("2001:db8::2"), Ip("192.0.2.66")
	ok, ok6 := inner(unchanged), inner6(unchanged)

	w.check(t, tunnelled(t, w, vniRed, peer), []verdictCase{
		delivered("IPv4", ok, MacA),
		delivered("IPv6", ok6, MacA),
		delivered("a later fragment", inner(func(f *frame) {
			f.Fragment, f.L4 = &fragment{100, false}, raw{state.ProtoUDP, []byte("rest")}
		}), MacA),
		refused("an address of another node", inner(func(f *frame) { f.Src, f.Dst = Ip("10.0.1.21"), Ip("10.0.1.20") }).bytes(), "wrong_node"),
		refused("an address nobody has", inner(func(f *frame) { f.Dst = Ip("10.0.1.99") }).bytes(), "no_endpoint"),
		refused("an address of no subnet", inner(func(f *frame) { f.Dst = Ip("10.0.9.1") }).bytes(), "no_subnet"),
		refused("the gateway", inner(func(f *frame) { f.Dst = Ip("10.0.1.1") }).bytes(), "wrong_node"),
		refused("the node's shadow", inner(func(f *frame) { f.Dst = Ip(nodeShadow) }).bytes(), "no_subnet"),
		refused("under an address of a pod of this node", inner(func(f *frame) { f.Src = Ip("10.0.1.11") }).bytes(), "spoofed_local"),
		refused("ARP", arpFrame(Bcast, macR, 1, macR, Ip("10.0.1.20"), state.MAC{}, Ip("10.0.1.10")), "tunnel_flood"),
		refused("a solicitation", inner6(func(f *frame) { f.Hops, f.L4 = 255, solicitation("fd10:0:0:1::10") }).bytes(), "tunnel_flood"),
		refused("an advertisement to a pod", inner6(func(f *frame) { f.Hops, f.L4 = 255, advertisement("fd10:0:0:1::1") }).bytes(), "tunnel_flood"),
		refused("multicast", inner(func(f *frame) { f.Dst = Ip("224.0.0.1") }).bytes(), "tunnel_flood"),
		refused("a broadcast frame", inner(func(f *frame) { f.EthDst = Bcast }).bytes(), "tunnel_flood"),
		refused("another ethertype", inner(func(f *frame) { f.EtherType = 0x88cc }).bytes(), "ethertype"),
		refused("a VLAN tag", append(append(ok.bytes()[:12:12], 0x81, 0, 0, 5), ok.bytes()[12:]...), "vlan"),
	})
	w.check(t, tunnelled(t, w, vniRed, peer6), []verdictCase{delivered("over an IPv6 underlay", ok, MacA)})
	w.check(t, tunnelled(t, w, vniRed, stranger), []verdictCase{refused("from no node", ok.bytes(), "unknown_node")})
	w.check(t, tunnelled(t, w, vniRed, Ip("2001:db8::66")), []verdictCase{refused("from no node over IPv6", ok.bytes(), "unknown_node")})
	w.check(t, tunnelled(t, w, 999, peer), []verdictCase{refused("of a VPC that is not here", ok.bytes(), "unknown_vni")})
	w.check(t, tunnelled(t, w, vniBlue, peer), []verdictCase{
		delivered("to the same address in another VPC", ok, MacA),
		refused("to an address that only another VPC has", inner(func(f *frame) { f.Dst = Ip("10.0.1.11") }).bytes(), "no_subnet"),
	})
	w.check(t, w.objects.AliothFromTunnel, []verdictCase{refused("without a tunnel", ok.bytes(), "no_tunnel_key")})
}

func TestThePacketsOfATunnelReachTheNodesInterface(t *testing.T) {
	w := newWorld(t)
	f := frame{EthDst: macNode, EthSrc: macR, Src: Ip("10.8.1.20"), Dst: Ip("10.8.1.2"), L4: udp{Sport: 53, Dport: 1000}}
	w.check(t, tunnelled(t, w, vniMain, Ip("192.0.2.2")), []verdictCase{{
		name: "from a pod of another node", device: w.podA, in: f.bytes(), verdict: actRedirect,
		out:    f.with(func(f *frame) { f.EthSrc = state.VirtualMAC }).bytes(),
		counts: one("from_tunnel/forwarded_local"),
	}})
}
