// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// toStack is a packet that leaves for the host's stack.
func toStack(name string, device int, in frame, out func(*frame), mark uint32) verdictCase {
	return verdictCase{
		name: name, device: device, in: in.bytes(), out: in.with(out).bytes(), verdict: actOK, mark: mark,
		counts: one("from_pod/to_stack"),
	}
}

const (
	shadowA, ShadowA6       = "169.254.64.10", "fd00:a110::10"
	shadowOpen, shadowOpen6 = "169.254.64.13", "fd00:a110::13"
	nodeShadow, nodeShadow6 = "169.254.64.1", "fd00:a110::1"
	outside, outside6       = "198.51.100.1", "2606:4700::1"
)

func TestAPodAnswersTheNodeUnderItsShadow(t *testing.T) {
	w := newWorld(t)
	reply := func(mutate func(*frame)) frame {
		return fromA(func(f *frame) {
			f.Dst, f.L4 = Ip(nodeShadow), tcp{Sport: 80, Dport: 40000, Flags: flagSYN | flagACK}
			mutate(f)
		})
	}
	reply6 := func(mutate func(*frame)) frame {
		return reply(func(f *frame) {
			f.Src, f.Dst = Ip("fd10:0:0:1::10"), Ip(nodeShadow6)
			mutate(f)
		})
	}
	shadow := func(f *frame) { f.Src = Ip(shadowA) }
	shadow6 := func(f *frame) { f.Src = Ip(ShadowA6) }
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("TCP over IPv4", w.podA, reply(unchanged), shadow, 0),
		toStack("TCP over IPv6", w.podA, reply6(unchanged), shadow6, 0),
		toStack("TCP behind an extension header", w.podA, reply6(func(f *frame) {
			f.Extensions = []extension{{60, make([]byte, 6)}}
		}), shadow6, 0),
		toStack("UDP", w.podA, reply(func(f *frame) { f.L4 = udp{Sport: 53, Dport: 40000, Payload: []byte("odd")} }), shadow, 0),
		toStack("UDP without a checksum", w.podA, reply(func(f *frame) {
			f.L4 = udp{Sport: 53, Dport: 40000, NoChecksum: true}
		}), shadow, 0),
		toStack("SCTP", w.podA, reply(func(f *frame) { f.L4 = raw{132, make([]byte, 32)} }), shadow, 0),
		toStack("SCTP over IPv6", w.podA, reply6(func(f *frame) { f.L4 = raw{132, make([]byte, 32)} }), shadow6, 0),
		toStack("an echo reply", w.podA, reply(func(f *frame) { f.L4 = icmp{Body: make([]byte, 12)} }), shadow, 0),
		toStack("an ICMPv6 echo reply", w.podA, reply6(func(f *frame) {
			f.L4 = icmp{V6: true, Type: 129, Body: make([]byte, 12)}
		}), shadow6, 0),
		dropped("a bare SYN", w.podA, reply(func(f *frame) { f.L4 = tcp{Flags: flagSYN} }).bytes(), "node_closed"),
		dropped("a bare SYN over IPv6", w.podA, reply6(func(f *frame) { f.L4 = tcp{Flags: flagSYN} }).bytes(), "node_closed"),
		dropped("a bare SYN behind an extension header", w.podA, reply6(func(f *frame) {
			f.L4, f.Extensions = tcp{Flags: flagSYN}, []extension{{60, make([]byte, 6)}}
		}).bytes(), "node_closed"),
		dropped("a first fragment of TCP", w.podA, reply(func(f *frame) { f.Fragment = &fragment{0, true} }).bytes(), "egress_fragment"),
		dropped("a later fragment over IPv6", w.podA, reply6(func(f *frame) { f.Fragment = &fragment{8, false} }).bytes(), "egress_fragment"),
		toStack("a first fragment of UDP", w.podA, reply(func(f *frame) {
			f.Fragment, f.L4 = &fragment{0, true}, udp{Sport: 53, Dport: 40000, Payload: make([]byte, 16)}
		}), shadow, 0),
		toStack("the fragment behind it", w.podA, reply(func(f *frame) {
			f.Fragment, f.L4 = &fragment{3, false}, raw{state.ProtoUDP, []byte("the rest")}
		}), shadow, 0),
		dropped("IPv4 options", w.podA, reply(func(f *frame) { f.Options = []byte{1, 1, 1, 0} }).bytes(), "egress_options"),
		dropped("an IPv6 routing header", w.podA, reply6(func(f *frame) {
			f.Extensions = []extension{{43, make([]byte, 6)}}
		}).bytes(), "egress_options"),
		dropped("a truncated TCP header", w.podA, reply(func(f *frame) { f.L4 = raw{state.ProtoTCP, make([]byte, 16)} }).bytes(), "bad_header"),
		dropped("a truncated SCTP header", w.podA, reply(func(f *frame) { f.L4 = raw{132, make([]byte, 11)} }).bytes(), "bad_header"),
		dropped("another protocol", w.podA, reply(func(f *frame) { f.L4 = raw{47, make([]byte, 32)} }).bytes(), "egress_protocol"),
		dropped("another shadow than the node's", w.podA, reply(func(f *frame) { f.Dst = Ip("169.254.64.11") }).bytes(), "egress_closed"),
	})
}

func TestAnErrorOfAPodAboutTheNodesPacketIsTranslated(t *testing.T) {
	w := newWorld(t)
	quote := func(src, dst string) []byte {
		f := frame{Src: Ip(src), Dst: Ip(dst), L4: udp{Sport: 40000, Dport: 53, NoChecksum: true}}
		return slices.Concat(make([]byte, 4), f.bytes()[14:])
	}
	unreachable := func(v6 bool, body []byte) icmp {
		if v6 {
			return icmp{V6: true, Type: 1, Code: 4, Body: body}
		}
		return icmp{Type: 3, Code: 3, Body: body}
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("over IPv4", w.podA, fromA(func(f *frame) {
			f.Dst, f.L4 = Ip(nodeShadow), unreachable(false, quote(nodeShadow, "10.0.1.10"))
		}), func(f *frame) {
			f.Src, f.L4 = Ip(shadowA), unreachable(false, quote(nodeShadow, shadowA))
		}, 0),
		toStack("over IPv6", w.podA, fromA6(func(f *frame) {
			f.Dst, f.L4 = Ip(nodeShadow6), unreachable(true, quote(nodeShadow6, "fd10:0:0:1::10"))
		}), func(f *frame) {
			f.Src, f.L4 = Ip(ShadowA6), unreachable(true, quote(nodeShadow6, ShadowA6))
		}, 0),
	})
}

func TestEgressLeavesUnderTheShadowAndMarked(t *testing.T) {
	w := newWorld(t)
	out := func(mutate func(*frame)) frame {
		return fromA(func(f *frame) {
			f.Dst = Ip(outside)
			mutate(f)
		})
	}
	out6 := func(mutate func(*frame)) frame {
		return fromA6(func(f *frame) {
			f.Dst = Ip(outside6)
			mutate(f)
		})
	}
	main := func(dst string) frame { return fromA(func(f *frame) { f.Src, f.Dst = Ip("10.8.1.10"), Ip(dst) }) }
	shadow := func(f *frame) { f.Src = Ip(shadowOpen) }
	shadow6 := func(f *frame) { f.Src = Ip(shadowOpen6) }
	to := func(name, dst, reason string) verdictCase {
		f := out(func(f *frame) { f.Dst = Ip(dst) })
		if Ip(dst).Is6() {
			f = out6(func(f *frame) { f.Dst = Ip(dst) })
		}
		return dropped(name, w.open, f.bytes(), reason)
	}
	egress := state.MarkEgress
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("TCP over IPv4", w.open, out(unchanged), shadow, egress),
		toStack("TCP over IPv6", w.open, out6(unchanged), shadow6, egress),
		toStack("SCTP", w.open, out(func(f *frame) { f.L4 = raw{132, make([]byte, 32)} }), shadow, egress),
		toStack("UDP", w.open, out(func(f *frame) { f.L4 = udp{Sport: 1000, Dport: 4788} }), shadow, egress),
		toStack("an echo request", w.open, out(func(f *frame) { f.L4 = icmp{Type: 8, Body: make([]byte, 12)} }), shadow, egress),
		toStack("the default VPC to a node", w.main, main("192.0.2.1"), func(f *frame) { f.Src = Ip("169.254.64.14") }, state.MarkNode),
		toStack("the default VPC to the outside", w.main, main(outside), func(f *frame) { f.Src = Ip("169.254.64.14") }, state.MarkNode),
		dropped("a VPC without egress", w.podA, out(unchanged).bytes(), "egress_closed"),
		dropped("a VPC without egress, IPv6", w.podA, out6(unchanged).bytes(), "egress_closed"),
		to("a shadow", "169.254.64.11", "egress_shadow"),
		to("a shadow over IPv6", "fd00:a110::11", "egress_shadow"),
		to("a node", "192.0.2.1", "egress_node"),
		to("a node that nobody listed as closed", "192.0.2.2", "egress_node"),
		to("a node over IPv6", "2001:db8::2", "egress_node"),
		to("the default VPC", "10.8.1.10", "egress_default_vpc"),
		to("the default VPC over IPv6", "fd18:0:0:1::10", "egress_default_vpc"),
		to("a service range", "10.96.5.5", "egress_service"),
		to("a service range over IPv6", "fd96::5", "egress_service"),
		to("link-local", "169.254.169.254", "egress_link_local"),
		to("link-local over IPv6", "fe80::77", "egress_link_local"),
		to("reserved space", "240.0.0.1", "egress_multicast"),
		to("a denied range", "203.0.113.5", "egress_denied"),
		to("a denied range over IPv6", "2001:db8:dead::5", "egress_denied"),
		dropped("the default VPC to another's door", w.main, main("169.254.64.10").bytes(), "egress_shadow"),
		dropped("the tunnel port", w.open, out(func(f *frame) { f.L4 = udp{Dport: 4789} }).bytes(), "egress_tunnel_port"),
		dropped("the tunnel port of a node, from the default VPC", w.main,
			main("192.0.2.1").with(func(f *frame) { f.L4 = udp{Dport: 4789} }).bytes(), "egress_tunnel_port"),
		dropped("the tunnel port behind an extension header", w.open, out6(func(f *frame) {
			f.L4, f.Extensions = udp{Dport: 4789}, []extension{{60, make([]byte, 6)}}
		}).bytes(), "egress_tunnel_port"),
		dropped("a tunnel of another kind", w.open, out(func(f *frame) { f.L4 = raw{4, make([]byte, 40)} }).bytes(), "egress_protocol"),
	})
}

func TestAPodAnswersWhoMayHaveReachedItFromOutside(t *testing.T) {
	w := newWorld(t)
	s := w.state()
	for i := range s.VPCs {
		s.VPCs[i].Fronted = true
	}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	answer := tcp{Sport: 80, Dport: 40000, Flags: flagSYN | flagACK}
	out := func(dst string, l4 transport) frame {
		return fromA(func(f *frame) {
			f.Dst, f.L4 = Ip(dst), l4
			if Ip(dst).Is6() {
				f.Src = Ip("fd10:0:0:1::10")
			}
		})
	}
	twin := func(f *frame) {
		f.Src = Ip("169.254.64.12")
		if f.Dst.Is6() {
			f.Src = Ip("fd00:a110::12")
		}
	}
	open := func(f *frame) { f.Src = Ip(shadowOpen) }
	closed := func(name, dst string, l4 transport) verdictCase {
		return dropped(name, w.twin, out(dst, l4).bytes(), "egress_closed")
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		toStack("SYN and ACK", w.twin, out(outside, answer), twin, 0),
		toStack("SYN and ACK over IPv6", w.twin, out(outside6, answer), twin, 0),
		toStack("RST", w.twin, out(outside, tcp{Flags: flagRST}), twin, 0),
		toStack("UDP", w.twin, out(outside, udp{Sport: 53, Dport: 40000}), twin, 0),
		toStack("UDP over IPv6", w.twin, out(outside6, udp{Sport: 53, Dport: 40000}), twin, 0),
		toStack("to a node", w.twin, out("192.0.2.2", answer), twin, 0),
		toStack("to a denied range", w.open, out("203.0.113.5", answer), open, 0),
		toStack("where egress leads, UDP", w.open, out(outside, udp{Sport: 53, Dport: 40000}), open, state.MarkEgress),
		toStack("where egress leads, a bare SYN", w.open, out(outside, tcp{Flags: flagSYN}), open, state.MarkEgress),
		dropped("a bare SYN to a denied range", w.open, out("203.0.113.5", tcp{Flags: flagSYN}).bytes(), "egress_denied"),
		closed("a bare SYN", outside, tcp{Flags: flagSYN}),
		closed("a bare SYN over IPv6", outside6, tcp{Flags: flagSYN}),
		closed("an echo request", outside, icmp{Type: 8, Body: make([]byte, 12)}),
		closed("SCTP", outside, raw{132, make([]byte, 32)}),
		closed("to the tunnel's port", outside, udp{Sport: 53, Dport: 4789}),
		closed("to another pod's shadow", "169.254.64.11", answer),
		closed("to the default VPC", "10.8.1.10", answer),
		closed("to a service range", "10.96.5.5", answer),
		closed("to link-local", "169.254.169.254", answer),
	})
}

func TestAVPCsListsDecideWhereItsEgressGoes(t *testing.T) {
	w := newWorld(t)
	s := w.state()
	s.Closed = append(s.Closed,
		state.ClosedPrefix{VNI: 0, Prefix: Px("169.254.169.254/32"), Class: state.ClosedMetadata}, state.ClosedPrefix{VNI: 0, Prefix: Px("fd00:ec2::254/128"), Class: state.ClosedMetadata},
		state.ClosedPrefix{VNI: vniOpen, Prefix: Px("0.0.0.0/0"), Class: state.ClosedUnlisted}, state.ClosedPrefix{VNI: vniOpen, Prefix: Px("::/0"), Class: state.ClosedUnlisted},
		state.ClosedPrefix{VNI: vniOpen, Prefix: Px("198.51.100.0/24"), Class: state.OpenListed}, state.ClosedPrefix{VNI: vniOpen, Prefix: Px("2606:4700::/32"), Class: state.OpenListed},
		state.ClosedPrefix{VNI: vniOpen, Prefix: Px("198.51.100.128/25"), Class: state.ClosedDenied},
		state.ClosedPrefix{VNI: vniOpen, Prefix: Px("192.0.2.1/32"), Class: state.OpenListed}, state.ClosedPrefix{VNI: vniOpen, Prefix: Px("192.0.2.2/32"), Class: state.OpenListed},
		state.ClosedPrefix{VNI: vniOpen, Prefix: Px("169.254.169.254/32"), Class: state.OpenMetadata},
		state.ClosedPrefix{VNI: vniOpen, Prefix: Px("169.254.169.0/24"), Class: state.OpenListed},
	)
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	from := func(src, dst string) frame { return fromA(func(f *frame) { f.Src, f.Dst = Ip(src), Ip(dst) }) }
	to := func(dst string) frame {
		if Ip(dst).Is6() {
			return fromA6(func(f *frame) { f.Dst = Ip(dst) })
		}
		return from("10.0.1.10", dst)
	}
	opened := func(name, dst string) verdictCase {
		source := shadowOpen
		if Ip(dst).Is6() {
			source = shadowOpen6
		}
		return toStack(name, w.open, to(dst), func(f *frame) { f.Src = Ip(source) }, state.MarkEgress)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		opened("a listed range", "198.51.100.1"),
		opened("a listed range over IPv6", "2606:4700::1"),
		dropped("what no list has", w.open, to("8.8.8.8").bytes(), "egress_unlisted"),
		dropped("what no list has, over IPv6", w.open, to("2001:4860::8").bytes(), "egress_unlisted"),
		dropped("a denied part of a listed range", w.open, to("198.51.100.200").bytes(), "egress_denied"),
		dropped("a listed node", w.open, to("192.0.2.1").bytes(), "egress_node"),
		dropped("a listed node that nobody closed", w.open, to("192.0.2.2").bytes(), "egress_node"),
		opened("the metadata address that is opened", "169.254.169.254"),
		dropped("its neighbour, which is listed", w.open, to("169.254.169.253").bytes(), "egress_link_local"),
		dropped("a metadata address that is not", w.open, to("fd00:ec2::254").bytes(), "egress_metadata"),
		dropped("a metadata address that another VPC opened", w.main, from("10.8.1.10", "169.254.169.254").bytes(), "egress_metadata"),
		toStack("another VPC, without a list", w.main, from("10.8.1.10", "8.8.8.8"),
			func(f *frame) { f.Src = Ip("169.254.64.14") }, state.MarkNode),
	})
}

func TestOnlyTheShadowIsReachedFromTheHostsStack(t *testing.T) {
	w := newWorld(t)
	in := func(mutate func(*frame)) frame {
		f := frame{
			EthDst: state.MAC{2, 1, 1, 1, 1, 1}, EthSrc: state.VirtualMAC, Src: Ip(nodeShadow), Dst: Ip(shadowA),
			L4: tcp{Sport: 40000, Dport: 80, Flags: flagSYN},
		}
		mutate(&f)
		return f
	}
	in6 := func(mutate func(*frame)) frame {
		return in(func(f *frame) {
			f.Src, f.Dst = Ip(nodeShadow6), Ip(ShadowA6)
			mutate(f)
		})
	}
	toPod := func(name string, f frame, out func(*frame)) verdictCase {
		return verdictCase{
			name: name, device: w.podA, in: f.bytes(), verdict: actOK, counts: one("to_pod/from_stack"),
			out: f.with(func(f *frame) {
				f.EthDst, f.EthSrc, f.Dst = MacA, state.VirtualMAC, Ip("10.0.1.10")
				if f.Src.Is6() {
					f.Dst = Ip("fd10:0:0:1::10")
				}
				out(f)
			}).bytes(),
		}
	}
	refused := func(name string, in []byte, reason string) verdictCase {
		return verdictCase{name: name, device: w.podA, in: in, verdict: actShot, counts: one("to_pod/" + reason)}
	}
	// A router on the way outside reports on a packet of the pod's.
	quote := func(src, dst string) []byte {
		f := frame{Src: Ip(src), Dst: Ip(dst), L4: udp{Sport: 1000, Dport: 53, NoChecksum: true}}
		return slices.Concat([]byte{0, 0, 5, 0x78}, f.bytes()[14:])
	}
	tooBig := func(src string) icmp { return icmp{Type: 3, Code: 4, Body: quote(src, outside)} }
	tooBig6 := func(src string) icmp { return icmp{V6: true, Type: 2, Body: quote(src, outside6)} }
	w.check(t, w.objects.AliothToPod, []verdictCase{
		toPod("TCP over IPv4", in(unchanged), unchanged),
		toPod("TCP over IPv6", in6(unchanged), unchanged),
		toPod("UDP without a checksum", in(func(f *frame) { f.L4 = udp{Sport: 1, Dport: 2, NoChecksum: true} }), unchanged),
		toPod("SCTP", in(func(f *frame) { f.L4 = raw{132, make([]byte, 32)} }), unchanged),
		toPod("an answer from outside", in(func(f *frame) { f.Src = Ip(outside) }), unchanged),
		toPod("a later fragment", in(func(f *frame) {
			f.Fragment, f.L4 = &fragment{100, false}, raw{state.ProtoUDP, []byte("rest")}
		}), unchanged),
		toPod("an error about a packet of the pod's", in(func(f *frame) { f.Src, f.L4 = Ip("192.0.2.254"), tooBig(shadowA) }),
			func(f *frame) { f.L4 = tooBig("10.0.1.10") }),
		toPod("an IPv6 error about a packet of the pod's", in6(func(f *frame) { f.Src, f.L4 = Ip(outside6), tooBig6(ShadowA6) }),
			func(f *frame) { f.L4 = tooBig6("fd10:0:0:1::10") }),
		toPod("an error that quotes too little", in(func(f *frame) { f.L4 = icmp{Type: 3, Body: make([]byte, 12)} }), unchanged),
		refused("the pod's own address", in(func(f *frame) { f.Dst = Ip("10.0.1.10") }).bytes(), "not_shadow"),
		refused("another pod's shadow", in(func(f *frame) { f.Dst = Ip("169.254.64.11") }).bytes(), "not_shadow"),
		refused("IPv6 multicast of the host", in6(func(f *frame) { f.Dst = Ip("ff02::2") }).bytes(), "not_shadow"),
		refused("ARP of the host", arpFrame(Bcast, state.VirtualMAC, 1, state.VirtualMAC, Ip(nodeShadow), state.MAC{}, Ip(shadowA)), "not_shadow"),
		refused("another protocol", in(func(f *frame) { f.L4 = raw{47, make([]byte, 32)} }).bytes(), "egress_protocol"),
		{
			name: "a device without a row", device: 1, in: in(unchanged).bytes(), verdict: actShot,
			counts: one("to_pod/unknown_interface"),
		},
	})
}
