// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestAnnouncedAddress_Solicitation_NodeAnswers(t *testing.T) {
	underlay := world.OnUnderlay(t)
	var uplink int
	w := world.New(t, func(cfg *programs.Config) {
		underlay(cfg)
		cfg.UnderlayMAC = world.MacUplink
		uplink = cfg.UnderlayIfindex
	})
	s := w.State()
	s.Announced = []netip.Addr{wire.IP("192.0.2.80"), wire.IP("2001:db8::80")}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	router, mine, none := wire.IP("192.0.2.254"), wire.IP("192.0.2.80"), wire.IP("0.0.0.0")
	solicit := func(target, src string, change func(*wire.Frame)) []byte {
		f := wire.Frame{
			EthDst: state.MAC{0x33, 0x33, 0xff, 0, 0, 0x80}, EthSrc: world.MacR, Src: wire.IP(src), Dst: wire.IP("ff02::1:ff00:80"), Hops: 255,
			L4: solicitation(target, append([]byte{1, 1}, world.MacR[:]...)...),
		}
		change(&f)
		return f.Bytes()
	}
	target := wire.IP("2001:db8::80").As16()
	advertised := wire.ICMP{V6: true, Type: 136, Body: append(append(append([]byte{0x60, 0, 0, 0}, target[:]...), 2, 1), world.MacUplink[:]...)}
	answered := func(name string, in, out []byte) world.Case {
		return world.Case{Name: name, Device: uplink, In: in, Out: out, Verdict: world.ActRedirect, Counts: map[string]uint64{}}
	}
	left := func(name string, in []byte) world.Case {
		return world.Case{Name: name, Device: uplink, In: in, Verdict: world.ActNext, Counts: map[string]uint64{}}
	}
	w.Expect(t, w.Objects.AliothFromUnderlay, []world.Case{
		answered(
			"a request",
			wire.ARP(world.Bcast, world.MacR, 1, world.MacR, router, state.MAC{}, mine),
			wire.ARP(world.MacR, world.MacUplink, 2, world.MacUplink, mine, world.MacR, router),
		),
		answered(
			"a request to the node alone",
			wire.ARP(world.MacUplink, world.MacR, 1, world.MacR, router, world.MacUplink, mine),
			wire.ARP(world.MacR, world.MacUplink, 2, world.MacUplink, mine, world.MacR, router),
		),
		answered(
			"a probe",
			wire.ARP(world.Bcast, world.MacR, 1, world.MacR, none, state.MAC{}, mine),
			wire.ARP(world.MacR, world.MacUplink, 2, world.MacUplink, mine, world.MacR, none),
		),
		left("a request for the node's own address", wire.ARP(world.Bcast, world.MacR, 1, world.MacR, router, state.MAC{}, wire.IP("192.0.2.1"))),
		left("an announcement", wire.ARP(world.Bcast, world.MacR, 1, world.MacR, mine, state.MAC{}, mine)),
		left("an answer", wire.ARP(world.MacUplink, world.MacR, 2, world.MacR, router, world.MacUplink, mine)),
		left("a cut request", wire.ARP(world.Bcast, world.MacR, 1, world.MacR, router, state.MAC{}, mine)[:40]),
		answered("a solicitation", solicit("2001:db8::80", "2001:db8::254", world.Unchanged), wire.Frame{
			EthDst: world.MacR, EthSrc: world.MacUplink, Src: wire.IP("2001:db8::80"), Dst: wire.IP("2001:db8::254"), Hops: 255, L4: advertised,
		}.Bytes()),
		left("a solicitation for another address", solicit("2001:db8::81", "2001:db8::254", world.Unchanged)),
		left("duplicate address detection", solicit("2001:db8::80", "::", world.Unchanged)),
		left("a solicitation from beyond the network", solicit("2001:db8::80", "2001:db8::254", func(f *wire.Frame) { f.Hops = 254 })),
		left("an advertisement", solicit("2001:db8::80", "2001:db8::254", func(f *wire.Frame) { f.L4 = advertised })),
		left("anything else over IPv6", solicit("2001:db8::80", "2001:db8::254", func(f *wire.Frame) { f.L4 = wire.UDP{Sport: 1, Dport: 2} })),
	})
	s, err := w.Snapshot()
	if err != nil || len(s.Announced) != 2 {
		t.Errorf("announced %v, %v", s.Announced, err)
	}
}

// A load balancer's address is out of the VPC's own ranges, in a subnet without pods,
// and two VPCs may have the same one.
func TestVirtualAddress_WithinVPCRange_Served(t *testing.T) {
	const vip, vip6 = "10.0.9.1", "fd10:0:0:9::1"
	w := world.NewScaled(t)
	s := w.ScaledState()
	b, b6 := wire.IP("10.0.1.11"), wire.IP("fd10:0:0:1::11")
	s.Services = append(s.Services,
		state.Service{VNI: world.VNIRed, VIP: wire.IP(vip), Proto: state.ProtoTCP, Port: 80, Backends: []state.Backend{{IP: b, Port: 8080}}},
		state.Service{VNI: world.VNIRed, VIP: wire.IP(vip6), Proto: state.ProtoTCP, Port: 80, Backends: []state.Backend{{IP: b6, Port: 8080}}},
		state.Service{VNI: world.VNIBlue, VIP: wire.IP(vip), Proto: state.ProtoTCP, Port: 80, Backends: []state.Backend{{IP: b, Port: 9090}}},
	)
	s.Subnets = append(
		s.Subnets,
		state.Subnet{VNI: world.VNIRed, Prefix: wire.Prefix("10.0.9.0/24")},
		state.Subnet{VNI: world.VNIBlue, Prefix: wire.Prefix("10.0.9.0/24")},
	)
	bpftest.Must(t, w.Apply(s))
	syn, data := wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN}, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagACK, Payload: []byte("x")}
	to := func(dst string, port uint16, l4 wire.TCP) func(*wire.Frame) {
		l4.Dport = port
		return func(f *wire.Frame) { f.Dst, f.L4 = wire.IP(dst), l4 }
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		goes("an opening of red", w.PodA, world.Asks(vip, syn), world.MacB, to("10.0.1.11", 8080, syn)),
		goes("the same packet of blue", w.Twin, world.Asks(vip, syn), world.MacR, to("10.0.1.11", 9090, syn)),
		goes("red's data", w.PodA, world.Asks(vip, data), world.MacB, to("10.0.1.11", 8080, data)),
		goes("blue's data", w.Twin, world.Asks(vip, data), world.MacR, to("10.0.1.11", 9090, data)),
		goes("over IPv6", w.PodA, world.Asks(vip6, syn), world.MacB, to("fd10:0:0:1::11", 8080, syn)),
		refused("a port that it does not have", w.PodA, world.Asks(vip, wire.TCP{Sport: 1000, Dport: 81, Flags: wire.FlagSYN})),
		dropped("an address beside it", w.PodA, world.Asks("10.0.9.2", syn).Bytes(), "no_endpoint"),
	})
	bpftest.Must(t, w.Apply(w.ScaledState()))
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("when it is nobody's any more", w.PodA, world.Asks(vip, wire.TCP{Sport: 1001, Dport: 80, Flags: wire.FlagSYN}).Bytes(), "no_subnet"),
	})
}
