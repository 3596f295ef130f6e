// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"slices"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// A pod reaches at a node the node ports of its own VPC, and nothing else.
func TestNodePort_Pod_OnlyOwnVPCReached(t *testing.T) {
	w := world.New(t)
	to := func(dst string, l4 wire.Transport) wire.Frame {
		base := world.FromA
		if wire.IP(dst).Is6() {
			base = world.FromA6
		}
		return base(func(f *wire.Frame) { f.Dst, f.L4 = wire.IP(dst), l4 })
	}
	leaves := func(f *wire.Frame) {
		f.Src = wire.IP(world.ShadowOpen)
		if f.Dst.Is6() {
			f.Src = wire.IP(world.ShadowOpen6)
		}
	}
	syn := func(port uint16) wire.TCP { return wire.TCP{Sport: 1000, Dport: port, Flags: wire.FlagSYN} }
	closed := func(name, dst string, l4 wire.Transport) world.Case {
		return dropped(name, w.Open, to(dst, l4).Bytes(), "egress_node")
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("TCP", w.Open, to("192.0.2.1", syn(30080)), leaves, state.MarkEgress),
		toStack("what goes on", w.Open, to("192.0.2.1", wire.TCP{Sport: 1000, Dport: 30080, Flags: wire.FlagACK}), leaves, state.MarkEgress),
		toStack("a node that nobody closed", w.Open, to("192.0.2.2", syn(30080)), leaves, state.MarkEgress),
		toStack("UDP", w.Open, to("192.0.2.1", wire.UDP{Sport: 1000, Dport: 30053}), leaves, state.MarkEgress),
		toStack("IPv6", w.Open, to("2001:db8::2", syn(30080)), leaves, state.MarkEgress),
		closed("of another protocol", "192.0.2.1", wire.UDP{Sport: 1000, Dport: 30080}),
		closed("of another family", "2001:db8::2", wire.UDP{Sport: 1000, Dport: 30053}),
		closed("of another VPC", "192.0.2.1", syn(30081)),
		closed("the kubelet's port", "192.0.2.1", syn(10250)),
		closed("ICMP", "192.0.2.1", wire.ICMP{Type: 8, Body: make([]byte, 4)}),
		closed("a load balancer's address", "192.0.2.100", syn(30080)),
		dropped("of a VPC without egress", w.PodA, to("192.0.2.1", syn(30081)).Bytes(), "egress_closed"),
		dropped("at another address", w.Open, to("10.8.1.2", syn(30080)).Bytes(), "egress_default_vpc"),
	})
	unlisted := []state.ClosedPrefix{
		{VNI: world.VNIOpen, Prefix: wire.Prefix("0.0.0.0/0"), Class: state.ClosedUnlisted},
		{VNI: world.VNIOpen, Prefix: wire.Prefix("::/0"), Class: state.ClosedUnlisted},
	}
	ofSender := state.ClosedPrefix{VNI: world.VNIOpen, Prefix: wire.Prefix("192.0.2.1/32"), Class: state.OpenListed}
	for name, c := range map[string]struct {
		listed []state.ClosedPrefix
		open   bool
	}{
		"denied":         {[]state.ClosedPrefix{{VNI: world.VNIOpen, Prefix: wire.Prefix("192.0.2.0/24"), Class: state.ClosedDenied}}, false},
		"unlisted":       {unlisted, false},
		"listed":         {append(slices.Clone(unlisted), ofSender), true},
		"another's list": {[]state.ClosedPrefix{{VNI: world.VNIRed, Prefix: wire.Prefix("192.0.2.0/24"), Class: state.ClosedDenied}}, true},
	} {
		s := w.State()
		s.Closed = append(s.Closed, c.listed...)
		bpftest.Must(t, w.Apply(s))
		asked := closed(name, "192.0.2.1", syn(30080))
		if c.open {
			asked = toStack(name, w.Open, to("192.0.2.1", syn(30080)), leaves, state.MarkEgress)
		}
		w.Expect(t, w.Objects.AliothFromPod, []world.Case{asked, closed(name+", another port", "192.0.2.1", syn(30081))})
	}
}

func TestNodePort_LaterFragments_FollowFirst(t *testing.T) {
	w := world.New(t)
	first, later := world.DatagramIn(world.Asks("192.0.2.1", nil), wire.UDP{Sport: 1000, Dport: 30053}, 1)
	leaves := func(f *wire.Frame) { f.Src = wire.IP(world.ShadowOpen) }
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("a later one before its first", w.Open, later.Bytes(), "egress_fragment"),
		toStack("the first", w.Open, first, leaves, state.MarkEgress),
		toStack("a later one", w.Open, later, leaves, state.MarkEgress),
	})
	first, later = world.DatagramIn(world.Asks("192.0.2.1", nil), wire.UDP{Sport: 1000, Dport: 30054}, 2)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("the first to a closed port", w.Open, first.Bytes(), "egress_node"),
		dropped("a later one of those", w.Open, later.Bytes(), "egress_fragment"),
	})
}
