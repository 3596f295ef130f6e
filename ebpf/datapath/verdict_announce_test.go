// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestTheNodeAnswersForTheAddressesThatItAnnounces(t *testing.T) {
	underlay := onUnderlay(t)
	var uplink int
	w := newWorld(t, func(cfg *programs.Config) {
		underlay(cfg)
		cfg.UnderlayMAC = macUplink
		uplink = cfg.UnderlayIfindex
	})
	s := w.state()
	s.Announced = []netip.Addr{Ip("192.0.2.80"), Ip("2001:db8::80")}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	router, mine, none := Ip("192.0.2.254"), Ip("192.0.2.80"), Ip("0.0.0.0")
	solicit := func(target, src string, change func(*frame)) []byte {
		f := frame{
			EthDst: state.MAC{0x33, 0x33, 0xff, 0, 0, 0x80}, EthSrc: macR, Src: Ip(src), Dst: Ip("ff02::1:ff00:80"), Hops: 255,
			L4: solicitation(target, append([]byte{1, 1}, macR[:]...)...),
		}
		change(&f)
		return f.bytes()
	}
	target := Ip("2001:db8::80").As16()
	advertised := icmp{V6: true, Type: 136, Body: append(append(append([]byte{0x60, 0, 0, 0}, target[:]...), 2, 1), macUplink[:]...)}
	answered := func(name string, in, out []byte) verdictCase {
		return verdictCase{name: name, device: uplink, in: in, out: out, verdict: actRedirect, counts: map[string]uint64{}}
	}
	left := func(name string, in []byte) verdictCase {
		return verdictCase{name: name, device: uplink, in: in, verdict: actNext, counts: map[string]uint64{}}
	}
	w.check(t, w.objects.AliothFromUnderlay, []verdictCase{
		answered("a request", arpFrame(Bcast, macR, 1, macR, router, state.MAC{}, mine), arpFrame(macR, macUplink, 2, macUplink, mine, macR, router)),
		answered("a request to the node alone", arpFrame(macUplink, macR, 1, macR, router, macUplink, mine), arpFrame(macR, macUplink, 2, macUplink, mine, macR, router)),
		answered("a probe", arpFrame(Bcast, macR, 1, macR, none, state.MAC{}, mine), arpFrame(macR, macUplink, 2, macUplink, mine, macR, none)),
		left("a request for the node's own address", arpFrame(Bcast, macR, 1, macR, router, state.MAC{}, Ip("192.0.2.1"))),
		left("an announcement", arpFrame(Bcast, macR, 1, macR, mine, state.MAC{}, mine)),
		left("an answer", arpFrame(macUplink, macR, 2, macR, router, macUplink, mine)),
		left("a cut request", arpFrame(Bcast, macR, 1, macR, router, state.MAC{}, mine)[:40]),
		answered("a solicitation", solicit("2001:db8::80", "2001:db8::254", unchanged), frame{
			EthDst: macR, EthSrc: macUplink, Src: Ip("2001:db8::80"), Dst: Ip("2001:db8::254"), Hops: 255, L4: advertised,
		}.bytes()),
		left("a solicitation for another address", solicit("2001:db8::81", "2001:db8::254", unchanged)),
		left("duplicate address detection", solicit("2001:db8::80", "::", unchanged)),
		left("a solicitation from beyond the network", solicit("2001:db8::80", "2001:db8::254", func(f *frame) { f.Hops = 254 })),
		left("an advertisement", solicit("2001:db8::80", "2001:db8::254", func(f *frame) { f.L4 = advertised })),
		left("anything else over IPv6", solicit("2001:db8::80", "2001:db8::254", func(f *frame) { f.L4 = udp{Sport: 1, Dport: 2} })),
	})
	s, err := w.Snapshot()
	if err != nil || len(s.Announced) != 2 {
		t.Errorf("announced %v, %v", s.Announced, err)
	}
}

// A node with IPv6 addresses only announces on the device that has them.
func TestTheUplinkIsTheDeviceWithTheAddressThatThereIs(t *testing.T) {
	underlay := onUnderlay(t)
	w := newWorld(t, func(cfg *programs.Config) {
		underlay(cfg)
		cfg.UnderlayIfindex, cfg.TunnelSource4 = 0, netip.Addr{}
	})
	if len(liveLinks(t, w)) != len(hook.LinkNames()) {
		t.Errorf("attached are %v", liveLinks(t, w))
	}
}
