// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestPacket_NotAllowedInVPC_DroppedWithReason(t *testing.T) {
	w := world.New(t)
	a := func(mutate func(*wire.Frame)) []byte { return world.FromA(mutate).Bytes() }
	a6 := func(mutate func(*wire.Frame)) []byte { return world.FromA6(mutate).Bytes() }
	vlan := append(append([]byte{}, a(world.Unchanged)[:12]...), append([]byte{0x88, 0xa8, 0, 5}, a(world.Unchanged)[12:]...)...)
	shortHeader, wrongVersion := a(world.Unchanged), a6(world.Unchanged)
	shortHeader[14] = 4<<4 | 4
	wrongVersion[14] = 4 << 4
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("a device without a row", 1, a(world.Unchanged), "unknown_interface"),
		dropped("a VLAN tag", w.PodA, vlan, "vlan"),
		dropped("an unknown ethertype", w.PodA, a(func(f *wire.Frame) { f.EtherType = 0x88cc }), "ethertype"),
		dropped("an IPv4 header that is too short", w.PodA, shortHeader, "bad_header"),
		dropped("an IPv4 header beyond the packet", w.PodA, a(func(f *wire.Frame) { f.Options = make([]byte, 40) })[:50], "bad_header"),
		dropped("IPv6 of another version", w.PodA, wrongVersion, "bad_header"),
		dropped("an IPv4-mapped address on the wire", w.PodA, a6(func(f *wire.Frame) {
			f.Dst = netip.AddrFrom16(wire.IP("10.0.1.11").As16())
		}), "bad_header"),
		dropped("too many extension headers", w.PodA, a6(func(f *wire.Frame) {
			for range 7 {
				f.Extensions = append(f.Extensions, wire.Extension{Type: 60, Body: make([]byte, 6)})
			}
		}), "extension_headers"),
		dropped("another source MAC", w.PodA, a(func(f *wire.Frame) { f.EthSrc = world.MacB }), "spoofed_mac"),
		dropped("another IPv4 source", w.PodA, a(func(f *wire.Frame) { f.Src = wire.IP("10.0.1.11") }), "spoofed_ip"),
		dropped("another IPv6 source", w.PodA, a6(func(f *wire.Frame) { f.Src = wire.IP("fd10:0:0:1::11") }), "spoofed_ip"),
		dropped("no IPv4 source", w.PodA, a(func(f *wire.Frame) { f.Src = wire.IP("0.0.0.0") }), "spoofed_ip"),
		dropped("no IPv6 source", w.PodA, a6(func(f *wire.Frame) { f.Src = wire.IP("::") }), "spoofed_ip"),
		dropped("an address nobody has", w.PodA, a(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") }), "no_endpoint"),
		dropped("an IPv6 address nobody has", w.PodA, a6(func(f *wire.Frame) { f.Dst = wire.IP("fd10:0:0:1::99") }), "no_endpoint"),
		dropped("an address of another CNI plugin", w.PodA, a(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.66") }), "held_outside"),
		dropped("an IPv6 address of another CNI plugin", w.PodA, a6(func(f *wire.Frame) { f.Dst = wire.IP("fd10:0:0:1::66") }), "held_outside"),
		dropped("an echo request to one of another CNI plugin", w.PodA, a(func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP("10.0.1.66"), wire.ICMP{Type: 8, Body: make([]byte, 12)}
		}), "held_outside"),
		dropped("an address of no subnet", w.PodA, a(func(f *wire.Frame) { f.Dst = wire.IP("10.0.2.1") }), "no_subnet"),
		dropped("an IPv6 address of no subnet", w.PodA, a6(func(f *wire.Frame) { f.Dst = wire.IP("fd10:0:0:2::1") }), "no_subnet"),
		dropped("an address that only another VPC knows", w.Twin, a(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.11") }), "no_subnet"),
		dropped("an IPv4 multicast group", w.PodA, a(func(f *wire.Frame) { f.Dst = wire.IP("224.0.0.251") }), "multicast"),
		dropped("an IPv6 multicast group", w.PodA, a6(func(f *wire.Frame) { f.Dst = wire.IP("ff02::fb") }), "multicast"),
		dropped("the limited broadcast", w.PodA, a(func(f *wire.Frame) { f.EthDst, f.Dst = world.Bcast, wire.IP("255.255.255.255") }), "broadcast"),
		dropped("a unicast address in a broadcast frame", w.PodA, a(func(f *wire.Frame) { f.EthDst = world.Bcast }), "broadcast"),
		dropped("a unicast address in a multicast frame", w.PodA, a(func(f *wire.Frame) { f.EthDst = state.MAC{1, 0, 0x5e, 0, 0, 1} }), "multicast"),
		dropped("TCP to the gateway", w.PodA, a(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.1") }), "gateway_closed"),
		dropped("an echo reply to the gateway", w.PodA, a(func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP("10.0.1.1"), wire.ICMP{Type: 0, Body: make([]byte, 12)}
		}), "gateway_closed"),
		dropped("a fragmented echo to the gateway", w.PodA, a(func(f *wire.Frame) {
			f.Dst, f.L4, f.Fragment = wire.IP("10.0.1.1"), wire.ICMP{Type: 8, Body: make([]byte, 12)}, &wire.Fragment{Offset: 0, More: true}
		}), "gateway_closed"),
	})
}

func TestAddressTable_OtherVPC_NeverReached(t *testing.T) {
	w := world.New(t)
	// Rows that no Apply would write: the address of a red pod leads to the
	// blue one, and another to a device without a row.
	row := bpf.AliothAddress{Kind: bpf.AliothAddressKindADDRESS_LOCAL, Ifindex: uint32(w.Twin), Mac: world.MacA}
	if err := w.Objects.AliothAddresses.Put(bpf.AliothAddressKey{Vni: world.VNIRed, Ip: bpf.EncodeAddr(wire.IP("10.0.1.77"))}, row); err != nil {
		t.Fatal(err)
	}
	row.Ifindex = 1
	if err := w.Objects.AliothAddresses.Put(bpf.AliothAddressKey{Vni: world.VNIRed, Ip: bpf.EncodeAddr(wire.IP("10.0.1.78"))}, row); err != nil {
		t.Fatal(err)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("an interface of another VPC", w.PodA, world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.77") }).Bytes(), "vni_mismatch"),
		dropped("an interface without a row", w.PodA, world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.78") }).Bytes(), "no_interface"),
	})
}

func TestGateway_Echo_AnsweredInPlace(t *testing.T) {
	w := world.New(t)
	var cases []world.Case
	for name, c := range map[string]struct {
		request        wire.Frame
		reply          wire.Transport
		gateway, asker netip.Addr
	}{
		"IPv4": {
			world.FromA(func(f *wire.Frame) {
				f.Dst, f.L4 = wire.IP("10.0.1.1"), wire.ICMP{Type: 8, Body: []byte("id seq and data")}
			}),
			wire.ICMP{Type: 0, Body: []byte("id seq and data")},
			wire.IP("10.0.1.1"), wire.IP("10.0.1.10"),
		},
		"IPv4 with options": {
			world.FromA(func(f *wire.Frame) {
				f.Dst, f.L4, f.Options = wire.IP("10.0.1.1"), wire.ICMP{Type: 8, Body: []byte("id seq")}, []byte{1, 1, 1, 0}
			}),
			wire.ICMP{Type: 0, Body: []byte("id seq")},
			wire.IP("10.0.1.1"), wire.IP("10.0.1.10"),
		},
		"IPv6": {
			world.FromA6(func(f *wire.Frame) {
				f.Dst, f.L4 = wire.IP("fd10:0:0:1::1"), wire.ICMP{V6: true, Type: 128, Body: []byte("id seq and data")}
			}),
			wire.ICMP{V6: true, Type: 129, Body: []byte("id seq and data")},
			wire.IP("fd10:0:0:1::1"), wire.IP("fd10:0:0:1::10"),
		},
	} {
		cases = append(cases, world.Case{
			Name: name, Device: w.PodA, In: c.request.Bytes(), Verdict: world.ActRedirect, Counts: world.One("from_pod/replied"),
			Out: c.request.With(func(f *wire.Frame) {
				f.EthDst, f.EthSrc, f.Src, f.Dst, f.L4 = world.MacA, state.VirtualMAC, c.gateway, c.asker, c.reply
			}).Bytes(),
		})
	}
	w.Expect(t, w.Objects.AliothFromPod, cases)
}

func TestARP_Request_AnsweredWithVirtualMAC(t *testing.T) {
	w := world.New(t)
	own, other, zero := wire.IP("10.0.1.10"), wire.IP("10.0.1.77"), wire.IP("0.0.0.0")
	request := wire.ARP(world.Bcast, world.MacA, 1, world.MacA, own, state.MAC{}, other)
	unicast := wire.ARP(state.VirtualMAC, world.MacA, 1, world.MacA, own, state.VirtualMAC, other)
	reply := wire.ARP(world.MacA, state.VirtualMAC, 2, state.VirtualMAC, other, world.MacA, own)
	token := wire.ARP(world.Bcast, world.MacA, 1, world.MacA, own, state.MAC{}, other)
	token[15] = 6
	answered := func(name string, in []byte) world.Case {
		return world.Case{Name: name, Device: w.PodA, In: in, Out: reply, Verdict: world.ActRedirect, Counts: world.One("from_pod/replied")}
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		answered("a request by broadcast", request),
		answered("a request by unicast", unicast),
		dropped("a request for the own address", w.PodA, wire.ARP(world.Bcast, world.MacA, 1, world.MacA, own, state.MAC{}, own), "arp_own"),
		dropped("a probe", w.PodA, wire.ARP(world.Bcast, world.MacA, 1, world.MacA, zero, state.MAC{}, own), "arp_own"),
		dropped("a reply", w.PodA, wire.ARP(world.Bcast, world.MacA, 2, world.MacA, own, state.MAC{}, other), "arp_other"),
		dropped("another sender MAC", w.PodA, wire.ARP(world.Bcast, world.MacA, 1, world.MacB, own, state.MAC{}, other), "spoofed_mac"),
		dropped("another frame source", w.PodA, wire.ARP(world.Bcast, world.MacB, 1, world.MacA, own, state.MAC{}, other), "spoofed_mac"),
		dropped("another sender address", w.PodA, wire.ARP(world.Bcast, world.MacA, 1, world.MacA, wire.IP("10.0.1.11"), state.MAC{}, other), "spoofed_ip"),
		dropped("another kind of hardware", w.PodA, token, "bad_header"),
		dropped("a truncated request", w.PodA, request[:40], "bad_header"),
	})
}

// solicitation returns the body of a neighbour solicitation for target.
func solicitation(target string, options ...byte) wire.ICMP {
	t := wire.IP(target).As16()
	return wire.ICMP{V6: true, Type: 135, Body: append(append(make([]byte, 4), t[:]...), options...)}
}

// advertisement returns the answer to one.
func advertisement(target string) wire.ICMP {
	t := wire.IP(target).As16()
	body := append([]byte{0xe0, 0, 0, 0}, t[:]...)
	return wire.ICMP{V6: true, Type: 136, Body: append(append(body, 2, 1), state.VirtualMAC[:]...)}
}

// linkLocalA is pod A's EUI-64 address.
const linkLocalA = "fe80::ff:fe00:aa"

func TestNeighbourSolicitation_Request_AnsweredWithVirtualMAC(t *testing.T) {
	w := world.New(t)
	source := append([]byte{1, 1}, world.MacA[:]...)
	nd := func(src, dst string, m wire.ICMP, mutate func(*wire.Frame)) []byte {
		return world.FromA(func(f *wire.Frame) {
			f.Src, f.Dst, f.L4, f.Hops = wire.IP(src), wire.IP(dst), m, 255
			mutate(f)
		}).Bytes()
	}
	answered := func(name, src, dst, target string, options ...byte) world.Case {
		return world.Case{
			Name: name, Device: w.PodA, In: nd(src, dst, solicitation(target, options...), world.Unchanged),
			Verdict: world.ActRedirect, Counts: world.One("from_pod/replied"),
			Out: wire.Frame{
				EthDst: world.MacA, EthSrc: state.VirtualMAC, Src: wire.IP(target), Dst: wire.IP(src), Hops: 255, L4: advertisement(target),
			}.Bytes(),
		}
	}
	own := "fd10:0:0:1::10"
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		answered("for a neighbour, by multicast", own, "ff02::1:ff00:11", "fd10:0:0:1::11", source...),
		answered("for a neighbour, without an option", own, "fd10:0:0:1::11", "fd10:0:0:1::11"),
		answered("with more options than the answer has room for", own, "ff02::1:ff00:11", "fd10:0:0:1::11",
			append(source, 14, 1, 1, 2, 3, 4, 5, 6)...),
		answered("for the gateway's link-local address", own, "ff02::1:ff00:1", "fe80::1", source...),
		answered("from the link-local address", linkLocalA, "ff02::1:ff00:1", "fe80::1", source...),
		dropped("for the own address", w.PodA, nd(own, "ff02::1:ff00:10", solicitation(own), world.Unchanged), "nd_own"),
		dropped("duplicate address detection", w.PodA, nd("::", "ff02::1:ff00:10", solicitation(own), world.Unchanged), "nd_own"),
		dropped("from another link-local address", w.PodA,
			nd("fe80::1234", "ff02::1:ff00:1", solicitation("fe80::1"), world.Unchanged), "spoofed_ip"),
		dropped("from another address", w.PodA,
			nd("fd10:0:0:1::11", "ff02::1:ff00:1", solicitation("fe80::1"), world.Unchanged), "spoofed_ip"),
		dropped("that has travelled", w.PodA,
			nd(own, "ff02::1:ff00:1", solicitation("fe80::1"), func(f *wire.Frame) { f.Hops = 254 }), "bad_header"),
		dropped("for a multicast target", w.PodA, nd(own, "ff02::1:ff00:1", solicitation("ff02::5"), world.Unchanged), "bad_header"),
		dropped("in a fragment", w.PodA,
			nd(own, "ff02::1:ff00:1", solicitation("fe80::1"), func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} }), "nd_other"),
		dropped("an advertisement", w.PodA, nd(own, "ff02::1", advertisement(own), world.Unchanged), "nd_other"),
		dropped("an advertisement behind an extension header, to a pod", w.PodA,
			nd(own, "fd10:0:0:1::11", advertisement(own), func(f *wire.Frame) {
				f.Extensions = []wire.Extension{{Type: 60, Body: make([]byte, 6)}}
			}), "nd_other"),
		dropped("a router advertisement", w.PodA,
			nd(linkLocalA, "fd10:0:0:1::11", wire.ICMP{V6: true, Type: 134, Body: make([]byte, 12)}, world.Unchanged), "nd_other"),
		dropped("a router solicitation", w.PodA,
			nd(linkLocalA, "ff02::2", wire.ICMP{V6: true, Type: 133, Body: make([]byte, 4)}, world.Unchanged), "router_solicitation"),
		dropped("a multicast listener report", w.PodA,
			nd(linkLocalA, "ff02::16", wire.ICMP{V6: true, Type: 143, Body: make([]byte, 24)}, func(f *wire.Frame) {
				f.Extensions = []wire.Extension{{Type: 0, Body: []byte{5, 2, 0, 0, 1, 0}}}
			}), "mld"),
	})
}

func TestNodeInterface_Packets_ReachOnlyItsVPC(t *testing.T) {
	w := world.New(t)
	node := func(mutate func(*wire.Frame)) wire.Frame {
		return world.FromA(func(f *wire.Frame) {
			f.EthSrc, f.Src, f.Dst = world.MacNode, wire.IP("10.8.1.2"), wire.IP("10.8.1.10")
			mutate(f)
		})
	}
	toNode := world.FromA(func(f *wire.Frame) { f.Src, f.Dst = wire.IP("10.8.1.10"), wire.IP("10.8.1.2") })
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		{
			Name: "to a pod", Device: w.Node, In: node(world.Unchanged).Bytes(), Verdict: world.ActRedirect,
			Out: node(func(f *wire.Frame) { f.EthDst, f.EthSrc = world.MacA, state.VirtualMAC }).Bytes(), Counts: world.One("from_pod/forwarded_local"),
		},
		{
			Name: "from a pod", Device: w.Main, In: toNode.Bytes(), Verdict: world.ActRedirect,
			Out:    toNode.With(func(f *wire.Frame) { f.EthDst, f.EthSrc = world.MacNode, state.VirtualMAC }).Bytes(),
			Counts: world.One("from_pod/forwarded_local"),
		},
		dropped("to the outside", w.Node, node(func(f *wire.Frame) { f.Dst = wire.IP("198.51.100.1") }).Bytes(), "outside_default_vpc"),
		dropped("to a shared service", w.Node, node(func(f *wire.Frame) { f.Dst = wire.IP("10.96.0.10") }).Bytes(), "outside_default_vpc"),
		dropped("to the node's shadow", w.Node, node(func(f *wire.Frame) { f.Dst = wire.IP("169.254.64.1") }).Bytes(), "outside_default_vpc"),
		dropped("under an address of its own outside the VPC", w.Node,
			node(func(f *wire.Frame) { f.Src = wire.IP("192.0.2.1") }).Bytes(), "spoofed_ip"),
	})
}

func TestMark_PacketEntersVPC_Cleared(t *testing.T) {
	w := world.New(t)
	toLocal := wire.Frame{EthDst: state.VirtualMAC, EthSrc: world.MacNode, Src: wire.IP("10.8.1.2"), Dst: wire.IP("10.8.1.10"), L4: wire.UDP{Sport: 1, Dport: 2}}
	toRemote := world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.20") })
	for name, c := range map[string]struct {
		device int
		in     wire.Frame
	}{"to this node": {w.Node, toLocal}, "to another": {w.PodA, toRemote}} {
		// Bits of the mark that others set stay.
		if _, _, mark := world.RunMarked(t, w.Objects.AliothFromPod, c.device, c.in.Bytes(), state.MarkShared|0x4000); mark != 0x4000 {
			t.Errorf("%s: the mark is %#x", name, mark)
		}
	}
}

// dropped returns a packet from a pod that is dropped unchanged.
func dropped(name string, device int, in []byte, reason string) world.Case {
	return world.Case{Name: name, Device: device, In: in, Verdict: world.ActShot, Counts: world.One("from_pod/" + reason)}
}
