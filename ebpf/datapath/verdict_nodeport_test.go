// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// A pod reaches at a node what its own VPC has there, and nothing else.
func TestAPodReachesNodePortsOfItsOwnVPC(t *testing.T) {
	w := newWorld(t)
	to := func(dst string, l4 transport) frame {
		base := fromA
		if Ip(dst).Is6() {
			base = fromA6
		}
		return base(func(f *frame) { f.Dst, f.L4 = Ip(dst), l4 })
	}
	leaves := func(f *frame) {
		f.Src = Ip(shadowOpen)
		if f.Dst.Is6() {
			f.Src = Ip(shadowOpen6)
		}
	}
	syn := func(port uint16) tcp { return tcp{Sport: 1000, Dport: port, Flags: flagSYN} }
	closed := func(name, dst string, l4 transport) verdictCase {
		return dropped(name, w.open, to(dst, l4).bytes(), "egress_node")
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("TCP", w.open, to("192.0.2.1", syn(30080)), leaves, state.MarkEgress),
		toStack("what goes on", w.open, to("192.0.2.1", tcp{Sport: 1000, Dport: 30080, Flags: flagACK}), leaves, state.MarkEgress),
		toStack("a node that nobody closed", w.open, to("192.0.2.2", syn(30080)), leaves, state.MarkEgress),
		toStack("UDP", w.open, to("192.0.2.1", udp{Sport: 1000, Dport: 30053}), leaves, state.MarkEgress),
		toStack("IPv6", w.open, to("2001:db8::2", syn(30080)), leaves, state.MarkEgress),
		closed("of another protocol", "192.0.2.1", udp{Sport: 1000, Dport: 30080}),
		closed("of another family", "2001:db8::2", udp{Sport: 1000, Dport: 30053}),
		closed("of another VPC", "192.0.2.1", syn(30081)),
		closed("the kubelet's port", "192.0.2.1", syn(10250)),
		closed("ICMP", "192.0.2.1", icmp{Type: 8, Body: make([]byte, 4)}),
		closed("a load balancer's address", "192.0.2.100", syn(30080)),
		dropped("of a VPC without egress", w.podA, to("192.0.2.1", syn(30081)).bytes(), "egress_closed"),
		dropped("at another address", w.open, to("10.8.1.2", syn(30080)).bytes(), "egress_default_vpc"),
	})
	for name, c := range map[string]struct {
		listed []state.ClosedPrefix
		open   bool
	}{
		"denied":         {[]state.ClosedPrefix{{VNI: vniOpen, Prefix: Px("192.0.2.0/24"), Class: state.ClosedDenied}}, false},
		"unlisted":       {[]state.ClosedPrefix{{VNI: vniOpen, Prefix: Px("0.0.0.0/0"), Class: state.ClosedUnlisted}, {VNI: vniOpen, Prefix: Px("::/0"), Class: state.ClosedUnlisted}}, false},
		"listed":         {[]state.ClosedPrefix{{VNI: vniOpen, Prefix: Px("0.0.0.0/0"), Class: state.ClosedUnlisted}, {VNI: vniOpen, Prefix: Px("::/0"), Class: state.ClosedUnlisted}, {VNI: vniOpen, Prefix: Px("192.0.2.1/32"), Class: state.OpenListed}}, true},
		"another's list": {[]state.ClosedPrefix{{VNI: vniRed, Prefix: Px("192.0.2.0/24"), Class: state.ClosedDenied}}, true},
	} {
		s := w.state()
		s.Closed = append(s.Closed, c.listed...)
		Must(t, w.Apply(s))
		asked := closed(name, "192.0.2.1", syn(30080))
		if c.open {
			asked = toStack(name, w.open, to("192.0.2.1", syn(30080)), leaves, state.MarkEgress)
		}
		w.check(t, w.objects.AliothFromPod, []verdictCase{asked, closed(name+", another port", "192.0.2.1", syn(30081))})
	}
}

func TestFragmentsToNodePortsFollowTheirFirst(t *testing.T) {
	w := newWorld(t)
	first, later := datagramIn(asks("192.0.2.1", nil), udp{Sport: 1000, Dport: 30053}, 1)
	leaves := func(f *frame) { f.Src = Ip(shadowOpen) }
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("a later one before its first", w.open, later.bytes(), "egress_fragment"),
		toStack("the first", w.open, first, leaves, state.MarkEgress),
		toStack("a later one", w.open, later, leaves, state.MarkEgress),
	})
	first, later = datagramIn(asks("192.0.2.1", nil), udp{Sport: 1000, Dport: 30054}, 2)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("the first to a closed port", w.open, first.bytes(), "egress_node"),
		dropped("a later one of those", w.open, later.bytes(), "egress_fragment"),
	})
}
