// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"slices"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// toStack returns a packet that leaves for the host's stack.
func toStack(name string, device int, in wire.Frame, out func(*wire.Frame), mark uint32) world.Case {
	return world.Case{
		Name: name, Device: device, In: in.Bytes(), Out: in.With(out).Bytes(), Verdict: world.ActOK, Mark: mark,
		Counts: world.One("from_pod/to_stack"),
	}
}

func TestPodAnswer_ToNode_UnderShadow(t *testing.T) {
	w := world.New(t)
	reply := func(mutate func(*wire.Frame)) wire.Frame {
		return world.FromA(func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP(world.NodeShadow), wire.TCP{Sport: 80, Dport: 40000, Flags: wire.FlagSYN | wire.FlagACK}
			mutate(f)
		})
	}
	reply6 := func(mutate func(*wire.Frame)) wire.Frame {
		return reply(func(f *wire.Frame) {
			f.Src, f.Dst = wire.IP("fd10:0:0:1::10"), wire.IP(world.NodeShadow6)
			mutate(f)
		})
	}
	shadow := func(f *wire.Frame) { f.Src = wire.IP(world.ShadowA) }
	shadow6 := func(f *wire.Frame) { f.Src = wire.IP(world.ShadowA6) }
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("TCP over IPv4", w.PodA, reply(world.Unchanged), shadow, 0),
		toStack("TCP over IPv6", w.PodA, reply6(world.Unchanged), shadow6, 0),
		toStack("TCP behind an extension header", w.PodA, reply6(func(f *wire.Frame) {
			f.Extensions = []wire.Extension{{Type: 60, Body: make([]byte, 6)}}
		}), shadow6, 0),
		toStack("UDP", w.PodA, reply(func(f *wire.Frame) { f.L4 = wire.UDP{Sport: 53, Dport: 40000, Payload: []byte("odd")} }), shadow, 0),
		toStack("UDP without a checksum", w.PodA, reply(func(f *wire.Frame) {
			f.L4 = wire.UDP{Sport: 53, Dport: 40000, NoChecksum: true}
		}), shadow, 0),
		toStack("SCTP", w.PodA, reply(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 132, Data: make([]byte, 32)} }), shadow, 0),
		toStack("SCTP over IPv6", w.PodA, reply6(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 132, Data: make([]byte, 32)} }), shadow6, 0),
		toStack("an echo reply", w.PodA, reply(func(f *wire.Frame) { f.L4 = wire.ICMP{Body: make([]byte, 12)} }), shadow, 0),
		toStack("an ICMPv6 echo reply", w.PodA, reply6(func(f *wire.Frame) {
			f.L4 = wire.ICMP{V6: true, Type: 129, Body: make([]byte, 12)}
		}), shadow6, 0),
		dropped("a bare SYN", w.PodA, reply(func(f *wire.Frame) { f.L4 = wire.TCP{Flags: wire.FlagSYN} }).Bytes(), "node_closed"),
		dropped("a bare SYN over IPv6", w.PodA, reply6(func(f *wire.Frame) { f.L4 = wire.TCP{Flags: wire.FlagSYN} }).Bytes(), "node_closed"),
		dropped("a bare SYN behind an extension header", w.PodA, reply6(func(f *wire.Frame) {
			f.L4, f.Extensions = wire.TCP{Flags: wire.FlagSYN}, []wire.Extension{{Type: 60, Body: make([]byte, 6)}}
		}).Bytes(), "node_closed"),
		dropped("a first fragment of TCP", w.PodA, reply(func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} }).Bytes(), "egress_fragment"),
		dropped("a later fragment over IPv6", w.PodA, reply6(func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 8, More: false} }).Bytes(), "egress_fragment"),
		toStack("a first fragment of UDP", w.PodA, reply(func(f *wire.Frame) {
			f.Fragment, f.L4 = &wire.Fragment{Offset: 0, More: true}, wire.UDP{Sport: 53, Dport: 40000, Payload: make([]byte, 16)}
		}), shadow, 0),
		toStack("the fragment behind it", w.PodA, reply(func(f *wire.Frame) {
			f.Fragment, f.L4 = &wire.Fragment{Offset: 3, More: false}, wire.Raw{Proto: state.ProtoUDP, Data: []byte("the rest")}
		}), shadow, 0),
		dropped("IPv4 options", w.PodA, reply(func(f *wire.Frame) { f.Options = []byte{1, 1, 1, 0} }).Bytes(), "egress_options"),
		dropped("an IPv6 routing header", w.PodA, reply6(func(f *wire.Frame) {
			f.Extensions = []wire.Extension{{Type: 43, Body: make([]byte, 6)}}
		}).Bytes(), "egress_options"),
		dropped(
			"a truncated TCP header",
			w.PodA,
			reply(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: state.ProtoTCP, Data: make([]byte, 16)} }).Bytes(),
			"bad_header",
		),
		dropped("a truncated SCTP header", w.PodA, reply(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 132, Data: make([]byte, 11)} }).Bytes(), "bad_header"),
		dropped("another protocol", w.PodA, reply(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 47, Data: make([]byte, 32)} }).Bytes(), "egress_protocol"),
		dropped("another shadow than the node's", w.PodA, reply(func(f *wire.Frame) { f.Dst = wire.IP("169.254.64.11") }).Bytes(), "egress_closed"),
	})
}

func TestICMPError_PodAboutNodePacket_Translated(t *testing.T) {
	w := world.New(t)
	quote := func(src, dst string) []byte {
		f := wire.Frame{Src: wire.IP(src), Dst: wire.IP(dst), L4: wire.UDP{Sport: 40000, Dport: 53, NoChecksum: true}}
		return slices.Concat(make([]byte, 4), f.Bytes()[14:])
	}
	unreachable := func(v6 bool, body []byte) wire.ICMP {
		if v6 {
			return wire.ICMP{V6: true, Type: 1, Code: 4, Body: body}
		}
		return wire.ICMP{Type: 3, Code: 3, Body: body}
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("over IPv4", w.PodA, world.FromA(func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP(world.NodeShadow), unreachable(false, quote(world.NodeShadow, "10.0.1.10"))
		}), func(f *wire.Frame) {
			f.Src, f.L4 = wire.IP(world.ShadowA), unreachable(false, quote(world.NodeShadow, world.ShadowA))
		}, 0),
		toStack("over IPv6", w.PodA, world.FromA6(func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP(world.NodeShadow6), unreachable(true, quote(world.NodeShadow6, "fd10:0:0:1::10"))
		}), func(f *wire.Frame) {
			f.Src, f.L4 = wire.IP(world.ShadowA6), unreachable(true, quote(world.NodeShadow6, world.ShadowA6))
		}, 0),
	})
}

func TestEgress_OpenVPC_ShadowAndMark(t *testing.T) {
	w := world.New(t)
	out := func(mutate func(*wire.Frame)) wire.Frame {
		return world.FromA(func(f *wire.Frame) {
			f.Dst = wire.IP(world.Outside)
			mutate(f)
		})
	}
	out6 := func(mutate func(*wire.Frame)) wire.Frame {
		return world.FromA6(func(f *wire.Frame) {
			f.Dst = wire.IP(world.Outside6)
			mutate(f)
		})
	}
	main := func(dst string) wire.Frame {
		return world.FromA(func(f *wire.Frame) { f.Src, f.Dst = wire.IP("10.8.1.10"), wire.IP(dst) })
	}
	shadow := func(f *wire.Frame) { f.Src = wire.IP(world.ShadowOpen) }
	shadow6 := func(f *wire.Frame) { f.Src = wire.IP(world.ShadowOpen6) }
	to := func(name, dst, reason string) world.Case {
		f := out(func(f *wire.Frame) { f.Dst = wire.IP(dst) })
		if wire.IP(dst).Is6() {
			f = out6(func(f *wire.Frame) { f.Dst = wire.IP(dst) })
		}
		return dropped(name, w.Open, f.Bytes(), reason)
	}
	egress := state.MarkEgress
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("TCP over IPv4", w.Open, out(world.Unchanged), shadow, egress),
		toStack("TCP over IPv6", w.Open, out6(world.Unchanged), shadow6, egress),
		toStack("SCTP", w.Open, out(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 132, Data: make([]byte, 32)} }), shadow, egress),
		toStack("UDP", w.Open, out(func(f *wire.Frame) { f.L4 = wire.UDP{Sport: 1000, Dport: 4788} }), shadow, egress),
		toStack("an echo request", w.Open, out(func(f *wire.Frame) { f.L4 = wire.ICMP{Type: 8, Body: make([]byte, 12)} }), shadow, egress),
		toStack("the default VPC to a node", w.Main, main("192.0.2.1"), func(f *wire.Frame) { f.Src = wire.IP("169.254.64.14") }, state.MarkNode),
		toStack("the default VPC to the outside", w.Main, main(world.Outside), func(f *wire.Frame) { f.Src = wire.IP("169.254.64.14") }, state.MarkNode),
		dropped("a VPC without egress", w.PodA, out(world.Unchanged).Bytes(), "egress_closed"),
		dropped("a VPC without egress, IPv6", w.PodA, out6(world.Unchanged).Bytes(), "egress_closed"),
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
		dropped("the default VPC to another's door", w.Main, main("169.254.64.10").Bytes(), "egress_shadow"),
		dropped("the tunnel port", w.Open, out(func(f *wire.Frame) { f.L4 = wire.UDP{Dport: 4789} }).Bytes(), "egress_tunnel_port"),
		dropped("the tunnel port of a node, from the default VPC", w.Main,
			main("192.0.2.1").With(func(f *wire.Frame) { f.L4 = wire.UDP{Dport: 4789} }).Bytes(), "egress_tunnel_port"),
		dropped("the tunnel port behind an extension header", w.Open, out6(func(f *wire.Frame) {
			f.L4, f.Extensions = wire.UDP{Dport: 4789}, []wire.Extension{{Type: 60, Body: make([]byte, 6)}}
		}).Bytes(), "egress_tunnel_port"),
		dropped("a tunnel of another kind", w.Open, out(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 4, Data: make([]byte, 40)} }).Bytes(), "egress_protocol"),
	})
}

func TestEgress_FrontedVPC_OnlyAnswersLeave(t *testing.T) {
	w := world.New(t)
	s := w.State()
	for i := range s.VPCs {
		s.VPCs[i].Fronted = true
	}
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	answer := wire.TCP{Sport: 80, Dport: 40000, Flags: wire.FlagSYN | wire.FlagACK}
	out := func(dst string, l4 wire.Transport) wire.Frame {
		return world.FromA(func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP(dst), l4
			if wire.IP(dst).Is6() {
				f.Src = wire.IP("fd10:0:0:1::10")
			}
		})
	}
	twin := func(f *wire.Frame) {
		f.Src = wire.IP("169.254.64.12")
		if f.Dst.Is6() {
			f.Src = wire.IP("fd00:a110::12")
		}
	}
	open := func(f *wire.Frame) { f.Src = wire.IP(world.ShadowOpen) }
	closed := func(name, dst string, l4 wire.Transport) world.Case {
		return dropped(name, w.Twin, out(dst, l4).Bytes(), "egress_closed")
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("SYN and ACK", w.Twin, out(world.Outside, answer), twin, 0),
		toStack("SYN and ACK over IPv6", w.Twin, out(world.Outside6, answer), twin, 0),
		toStack("RST", w.Twin, out(world.Outside, wire.TCP{Flags: wire.FlagRST}), twin, 0),
		toStack("UDP", w.Twin, out(world.Outside, wire.UDP{Sport: 53, Dport: 40000}), twin, 0),
		toStack("UDP over IPv6", w.Twin, out(world.Outside6, wire.UDP{Sport: 53, Dport: 40000}), twin, 0),
		toStack("to a node", w.Twin, out("192.0.2.2", answer), twin, 0),
		toStack("to a load balancer", w.Twin, out("192.0.2.100", answer), twin, 0),
		toStack("to a denied range", w.Open, out("203.0.113.5", answer), open, 0),
		toStack("where egress leads, UDP", w.Open, out(world.Outside, wire.UDP{Sport: 53, Dport: 40000}), open, state.MarkEgress),
		toStack("where egress leads, a bare SYN", w.Open, out(world.Outside, wire.TCP{Flags: wire.FlagSYN}), open, state.MarkEgress),
		dropped("a bare SYN to a denied range", w.Open, out("203.0.113.5", wire.TCP{Flags: wire.FlagSYN}).Bytes(), "egress_denied"),
		closed("a bare SYN", world.Outside, wire.TCP{Flags: wire.FlagSYN}),
		closed("a bare SYN over IPv6", world.Outside6, wire.TCP{Flags: wire.FlagSYN}),
		closed("an echo request", world.Outside, wire.ICMP{Type: 8, Body: make([]byte, 12)}),
		closed("SCTP", world.Outside, wire.Raw{Proto: 132, Data: make([]byte, 32)}),
		closed("to the tunnel's port", world.Outside, wire.UDP{Sport: 53, Dport: 4789}),
		closed("to another pod's shadow", "169.254.64.11", answer),
		closed("to the default VPC", "10.8.1.10", answer),
		closed("to a service range", "10.96.5.5", answer),
		closed("to link-local", "169.254.169.254", answer),
	})
}

func TestEgress_VPCLists_DecideTargets(t *testing.T) {
	w := world.New(t)
	s := w.State()
	s.Closed = append(
		s.Closed,
		state.ClosedPrefix{
			VNI:    0,
			Prefix: wire.Prefix("169.254.169.254/32"),
			Class:  state.ClosedMetadata,
		},
		state.ClosedPrefix{VNI: 0, Prefix: wire.Prefix("fd00:ec2::254/128"), Class: state.ClosedMetadata},
		state.ClosedPrefix{
			VNI:    world.VNIOpen,
			Prefix: wire.Prefix("0.0.0.0/0"),
			Class:  state.ClosedUnlisted,
		},
		state.ClosedPrefix{VNI: world.VNIOpen, Prefix: wire.Prefix("::/0"), Class: state.ClosedUnlisted},
		state.ClosedPrefix{
			VNI:    world.VNIOpen,
			Prefix: wire.Prefix("198.51.100.0/24"),
			Class:  state.OpenListed,
		},
		state.ClosedPrefix{VNI: world.VNIOpen, Prefix: wire.Prefix("2606:4700::/32"), Class: state.OpenListed},
		state.ClosedPrefix{VNI: world.VNIOpen, Prefix: wire.Prefix("198.51.100.128/25"), Class: state.ClosedDenied},
		state.ClosedPrefix{
			VNI:    world.VNIOpen,
			Prefix: wire.Prefix("192.0.2.1/32"),
			Class:  state.OpenListed,
		},
		state.ClosedPrefix{VNI: world.VNIOpen, Prefix: wire.Prefix("192.0.2.2/32"), Class: state.OpenListed},
		state.ClosedPrefix{VNI: world.VNIOpen, Prefix: wire.Prefix("169.254.169.254/32"), Class: state.OpenMetadata},
		state.ClosedPrefix{VNI: world.VNIOpen, Prefix: wire.Prefix("169.254.169.0/24"), Class: state.OpenListed},
	)
	if err := w.Apply(s); err != nil {
		t.Fatal(err)
	}
	from := func(src, dst string) wire.Frame {
		return world.FromA(func(f *wire.Frame) { f.Src, f.Dst = wire.IP(src), wire.IP(dst) })
	}
	to := func(dst string) wire.Frame {
		if wire.IP(dst).Is6() {
			return world.FromA6(func(f *wire.Frame) { f.Dst = wire.IP(dst) })
		}
		return from("10.0.1.10", dst)
	}
	opened := func(name, dst string) world.Case {
		source := world.ShadowOpen
		if wire.IP(dst).Is6() {
			source = world.ShadowOpen6
		}
		return toStack(name, w.Open, to(dst), func(f *wire.Frame) { f.Src = wire.IP(source) }, state.MarkEgress)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		opened("a listed range", "198.51.100.1"),
		opened("a listed range over IPv6", "2606:4700::1"),
		dropped("what no list has", w.Open, to("8.8.8.8").Bytes(), "egress_unlisted"),
		dropped("what no list has, over IPv6", w.Open, to("2001:4860::8").Bytes(), "egress_unlisted"),
		dropped("a denied part of a listed range", w.Open, to("198.51.100.200").Bytes(), "egress_denied"),
		dropped("a listed node", w.Open, to("192.0.2.1").Bytes(), "egress_node"),
		dropped("a listed node that nobody closed", w.Open, to("192.0.2.2").Bytes(), "egress_node"),
		opened("the metadata address that is opened", "169.254.169.254"),
		dropped("its neighbour, which is listed", w.Open, to("169.254.169.253").Bytes(), "egress_link_local"),
		dropped("a metadata address that is not", w.Open, to("fd00:ec2::254").Bytes(), "egress_metadata"),
		dropped("a metadata address that another VPC opened", w.Main, from("10.8.1.10", "169.254.169.254").Bytes(), "egress_metadata"),
		toStack("another VPC, without a list", w.Main, from("10.8.1.10", "8.8.8.8"),
			func(f *wire.Frame) { f.Src = wire.IP("169.254.64.14") }, state.MarkNode),
	})
}

func TestToPod_FromHostStack_OnlyShadowReached(t *testing.T) {
	w := world.New(t)
	in := func(mutate func(*wire.Frame)) wire.Frame {
		f := wire.Frame{
			EthDst: state.MAC{2, 1, 1, 1, 1, 1}, EthSrc: state.VirtualMAC, Src: wire.IP(world.NodeShadow), Dst: wire.IP(world.ShadowA),
			L4: wire.TCP{Sport: 40000, Dport: 80, Flags: wire.FlagSYN},
		}
		mutate(&f)
		return f
	}
	in6 := func(mutate func(*wire.Frame)) wire.Frame {
		return in(func(f *wire.Frame) {
			f.Src, f.Dst = wire.IP(world.NodeShadow6), wire.IP(world.ShadowA6)
			mutate(f)
		})
	}
	toPod := func(name string, f wire.Frame, out func(*wire.Frame)) world.Case {
		return world.Case{
			Name: name, Device: w.PodA, In: f.Bytes(), Verdict: world.ActOK, Counts: world.One("to_pod/from_stack"),
			Out: f.With(func(f *wire.Frame) {
				f.EthDst, f.EthSrc, f.Dst = world.MacA, state.VirtualMAC, wire.IP("10.0.1.10")
				if f.Src.Is6() {
					f.Dst = wire.IP("fd10:0:0:1::10")
				}
				out(f)
			}).Bytes(),
		}
	}
	refused := func(name string, in []byte, reason string) world.Case {
		return world.Case{Name: name, Device: w.PodA, In: in, Verdict: world.ActShot, Counts: world.One("to_pod/" + reason)}
	}
	// A router on the way outside reports on a packet of the pod's.
	quote := func(src, dst string) []byte {
		f := wire.Frame{Src: wire.IP(src), Dst: wire.IP(dst), L4: wire.UDP{Sport: 1000, Dport: 53, NoChecksum: true}}
		return slices.Concat([]byte{0, 0, 5, 0x78}, f.Bytes()[14:])
	}
	tooBig := func(src string) wire.ICMP { return wire.ICMP{Type: 3, Code: 4, Body: quote(src, world.Outside)} }
	tooBig6 := func(src string) wire.ICMP { return wire.ICMP{V6: true, Type: 2, Body: quote(src, world.Outside6)} }
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		toPod("TCP over IPv4", in(world.Unchanged), world.Unchanged),
		toPod("TCP over IPv6", in6(world.Unchanged), world.Unchanged),
		toPod("UDP without a checksum", in(func(f *wire.Frame) { f.L4 = wire.UDP{Sport: 1, Dport: 2, NoChecksum: true} }), world.Unchanged),
		toPod("SCTP", in(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 132, Data: make([]byte, 32)} }), world.Unchanged),
		toPod("an answer from outside", in(func(f *wire.Frame) { f.Src = wire.IP(world.Outside) }), world.Unchanged),
		toPod("a later fragment", in(func(f *wire.Frame) {
			f.Fragment, f.L4 = &wire.Fragment{Offset: 100, More: false}, wire.Raw{Proto: state.ProtoUDP, Data: []byte("rest")}
		}), world.Unchanged),
		toPod("an error about a packet of the pod's", in(func(f *wire.Frame) { f.Src, f.L4 = wire.IP("192.0.2.254"), tooBig(world.ShadowA) }),
			func(f *wire.Frame) { f.L4 = tooBig("10.0.1.10") }),
		toPod("an IPv6 error about a packet of the pod's", in6(func(f *wire.Frame) { f.Src, f.L4 = wire.IP(world.Outside6), tooBig6(world.ShadowA6) }),
			func(f *wire.Frame) { f.L4 = tooBig6("fd10:0:0:1::10") }),
		toPod("an error that quotes too little", in(func(f *wire.Frame) { f.L4 = wire.ICMP{Type: 3, Body: make([]byte, 12)} }), world.Unchanged),
		refused("the pod's own address", in(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.10") }).Bytes(), "not_shadow"),
		refused("another pod's shadow", in(func(f *wire.Frame) { f.Dst = wire.IP("169.254.64.11") }).Bytes(), "not_shadow"),
		refused("IPv6 multicast of the host", in6(func(f *wire.Frame) { f.Dst = wire.IP("ff02::2") }).Bytes(), "not_shadow"),
		refused("the host's report of its multicast groups", in6(func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP("ff02::16"), wire.ICMP{V6: true, Type: 143, Body: make([]byte, 24)}
		}).Bytes(), "mld"),
		refused(
			"ARP of the host",
			wire.ARP(world.Bcast, state.VirtualMAC, 1, state.VirtualMAC, wire.IP(world.NodeShadow), state.MAC{}, wire.IP(world.ShadowA)),
			"not_shadow",
		),
		refused("another protocol", in(func(f *wire.Frame) { f.L4 = wire.Raw{Proto: 47, Data: make([]byte, 32)} }).Bytes(), "egress_protocol"),
		{
			Name: "a device without a row", Device: 1, In: in(world.Unchanged).Bytes(), Verdict: world.ActShot,
			Counts: world.One("to_pod/unknown_interface"),
		},
	})
}
