// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestPacketsThatHaveNoPlaceInAVPCAreDroppedWithTheirReason(t *testing.T) {
	w := newWorld(t)
	a := func(mutate func(*frame)) []byte { return fromA(mutate).bytes() }
	a6 := func(mutate func(*frame)) []byte { return fromA6(mutate).bytes() }
	vlan := append(append([]byte{}, a(unchanged)[:12]...), append([]byte{0x88, 0xa8, 0, 5}, a(unchanged)[12:]...)...)
	shortHeader, wrongVersion := a(unchanged), a6(unchanged)
	shortHeader[14] = 4<<4 | 4
	wrongVersion[14] = 4 << 4
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("a device without a row", 1, a(unchanged), "unknown_interface"),
		dropped("a VLAN tag", w.podA, vlan, "vlan"),
		dropped("an unknown ethertype", w.podA, a(func(f *frame) { f.EtherType = 0x88cc }), "ethertype"),
		dropped("an IPv4 header that is too short", w.podA, shortHeader, "bad_header"),
		dropped("an IPv4 header beyond the packet", w.podA, a(func(f *frame) { f.Options = make([]byte, 40) })[:50], "bad_header"),
		dropped("IPv6 of another version", w.podA, wrongVersion, "bad_header"),
		dropped("an IPv4-mapped address on the wire", w.podA, a6(func(f *frame) {
			f.Dst = netip.AddrFrom16(Ip("10.0.1.11").As16())
		}), "bad_header"),
		dropped("too many extension headers", w.podA, a6(func(f *frame) {
			for range 7 {
				f.Extensions = append(f.Extensions, extension{60, make([]byte, 6)})
			}
		}), "extension_headers"),
		dropped("another source MAC", w.podA, a(func(f *frame) { f.EthSrc = MacB }), "spoofed_mac"),
		dropped("another IPv4 source", w.podA, a(func(f *frame) { f.Src = Ip("10.0.1.11") }), "spoofed_ip"),
		dropped("another IPv6 source", w.podA, a6(func(f *frame) { f.Src = Ip("fd10:0:0:1::11") }), "spoofed_ip"),
		dropped("no IPv4 source", w.podA, a(func(f *frame) { f.Src = Ip("0.0.0.0") }), "spoofed_ip"),
		dropped("no IPv6 source", w.podA, a6(func(f *frame) { f.Src = Ip("::") }), "spoofed_ip"),
		dropped("an address nobody has", w.podA, a(func(f *frame) { f.Dst = Ip("10.0.1.99") }), "no_endpoint"),
		dropped("an IPv6 address nobody has", w.podA, a6(func(f *frame) { f.Dst = Ip("fd10:0:0:1::99") }), "no_endpoint"),
		dropped("an address of no subnet", w.podA, a(func(f *frame) { f.Dst = Ip("10.0.2.1") }), "no_subnet"),
		dropped("an IPv6 address of no subnet", w.podA, a6(func(f *frame) { f.Dst = Ip("fd10:0:0:2::1") }), "no_subnet"),
		dropped("an address that only another VPC knows", w.twin, a(func(f *frame) { f.Dst = Ip("10.0.1.11") }), "no_subnet"),
		dropped("an IPv4 multicast group", w.podA, a(func(f *frame) { f.Dst = Ip("224.0.0.251") }), "multicast"),
		dropped("an IPv6 multicast group", w.podA, a6(func(f *frame) { f.Dst = Ip("ff02::fb") }), "multicast"),
		dropped("the limited broadcast", w.podA, a(func(f *frame) { f.EthDst, f.Dst = Bcast, Ip("255.255.255.255") }), "broadcast"),
		dropped("a unicast address in a broadcast frame", w.podA, a(func(f *frame) { f.EthDst = Bcast }), "broadcast"),
		dropped("a unicast address in a multicast frame", w.podA, a(func(f *frame) { f.EthDst = state.MAC{1, 0, 0x5e, 0, 0, 1} }), "multicast"),
		dropped("TCP to the gateway", w.podA, a(func(f *frame) { f.Dst = Ip("10.0.1.1") }), "gateway_closed"),
		dropped("an echo reply to the gateway", w.podA, a(func(f *frame) {
			f.Dst, f.L4 = Ip("10.0.1.1"), icmp{Type: 0, Body: make([]byte, 12)}
		}), "gateway_closed"),
		dropped("a fragmented echo to the gateway", w.podA, a(func(f *frame) {
			f.Dst, f.L4, f.Fragment = Ip("10.0.1.1"), icmp{Type: 8, Body: make([]byte, 12)}, &fragment{0, true}
		}), "gateway_closed"),
	})
}

func TestTheAddressTableNeverLeadsIntoAnotherVPC(t *testing.T) {
	w := newWorld(t)
	// Rows that no Apply would write: the address of a red pod leads to the
	// blue one, and another to a device without a row.
	row := bpf.AliothAddress{Kind: bpf.AliothAddressKindADDRESS_LOCAL, Ifindex: uint32(w.twin), Mac: MacA}
	if err := w.objects.AliothAddresses.Put(bpf.AliothAddressKey{Vni: vniRed, Ip: bpf.EncodeAddr(Ip("10.0.1.77"))}, row); err != nil {
		t.Fatal(err)
	}
	row.Ifindex = 1
	if err := w.objects.AliothAddresses.Put(bpf.AliothAddressKey{Vni: vniRed, Ip: bpf.EncodeAddr(Ip("10.0.1.78"))}, row); err != nil {
		t.Fatal(err)
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("an interface of another VPC", w.podA, fromA(func(f *frame) { f.Dst = Ip("10.0.1.77") }).bytes(), "vni_mismatch"),
		dropped("an interface without a row", w.podA, fromA(func(f *frame) { f.Dst = Ip("10.0.1.78") }).bytes(), "no_interface"),
	})
}

func TestTheGatewayAnswersEchoInPlace(t *testing.T) {
	w := newWorld(t)
	var cases []verdictCase
	for name, c := range map[string]struct {
		request        frame
		reply          transport
		gateway, asker netip.Addr
	}{
		"IPv4": {
			fromA(func(f *frame) { f.Dst, f.L4 = Ip("10.0.1.1"), icmp{Type: 8, Body: []byte("id seq and data")} }),
			icmp{Type: 0, Body: []byte("id seq and data")},
			Ip("10.0.1.1"), Ip("10.0.1.10"),
		},
		"IPv4 with options": {
			fromA(func(f *frame) {
				f.Dst, f.L4, f.Options = Ip("10.0.1.1"), icmp{Type: 8, Body: []byte("id seq")}, []byte{1, 1, 1, 0}
			}),
			icmp{Type: 0, Body: []byte("id seq")},
			Ip("10.0.1.1"), Ip("10.0.1.10"),
		},
		"IPv6": {
			fromA6(func(f *frame) {
				f.Dst, f.L4 = Ip("fd10:0:0:1::1"), icmp{V6: true, Type: 128, Body: []byte("id seq and data")}
			}),
			icmp{V6: true, Type: 129, Body: []byte("id seq and data")},
			Ip("fd10:0:0:1::1"), Ip("fd10:0:0:1::10"),
		},
	} {
		cases = append(cases, verdictCase{
			name: name, device: w.podA, in: c.request.bytes(), verdict: actRedirect, counts: one("from_pod/replied"),
			out: c.request.with(func(f *frame) {
				f.EthDst, f.EthSrc, f.Src, f.Dst, f.L4 = MacA, state.VirtualMAC, c.gateway, c.asker, c.reply
			}).bytes(),
		})
	}
	w.check(t, w.objects.AliothFromPod, cases)
}

func TestARPIsAnsweredWithTheVirtualMAC(t *testing.T) {
	w := newWorld(t)
	own, other, zero := Ip("10.0.1.10"), Ip("10.0.1.77"), Ip("0.0.0.0")
	request := arpFrame(Bcast, MacA, 1, MacA, own, state.MAC{}, other)
	unicast := arpFrame(state.VirtualMAC, MacA, 1, MacA, own, state.VirtualMAC, other)
	reply := arpFrame(MacA, state.VirtualMAC, 2, state.VirtualMAC, other, MacA, own)
	token := arpFrame(Bcast, MacA, 1, MacA, own, state.MAC{}, other)
	token[15] = 6
	answered := func(name string, in []byte) verdictCase {
		return verdictCase{name: name, device: w.podA, in: in, out: reply, verdict: actRedirect, counts: one("from_pod/replied")}
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		answered("a request by broadcast", request),
		answered("a request by unicast", unicast),
		dropped("a request for the own address", w.podA, arpFrame(Bcast, MacA, 1, MacA, own, state.MAC{}, own), "arp_own"),
		dropped("a probe", w.podA, arpFrame(Bcast, MacA, 1, MacA, zero, state.MAC{}, own), "arp_own"),
		dropped("a reply", w.podA, arpFrame(Bcast, MacA, 2, MacA, own, state.MAC{}, other), "arp_other"),
		dropped("another sender MAC", w.podA, arpFrame(Bcast, MacA, 1, MacB, own, state.MAC{}, other), "spoofed_mac"),
		dropped("another frame source", w.podA, arpFrame(Bcast, MacB, 1, MacA, own, state.MAC{}, other), "spoofed_mac"),
		dropped("another sender address", w.podA, arpFrame(Bcast, MacA, 1, MacA, Ip("10.0.1.11"), state.MAC{}, other), "spoofed_ip"),
		dropped("another kind of hardware", w.podA, token, "bad_header"),
		dropped("a truncated request", w.podA, request[:40], "bad_header"),
	})
}

// solicitation is the body of a neighbour solicitation for target.
func solicitation(target string, options ...byte) icmp {
	t := Ip(target).As16()
	return icmp{V6: true, Type: 135, Body: append(append(make([]byte, 4), t[:]...), options...)}
}

// advertisement is the answer to one.
func advertisement(target string) icmp {
	t := Ip(target).As16()
	body := append([]byte{0xe0, 0, 0, 0}, t[:]...)
	return icmp{V6: true, Type: 136, Body: append(append(body, 2, 1), state.VirtualMAC[:]...)}
}

// linkLocalA is pod A's EUI-64 address.
const linkLocalA = "fe80::ff:fe00:aa"

func TestNeighbourSolicitationIsAnsweredWithTheVirtualMAC(t *testing.T) {
	w := newWorld(t)
	source := append([]byte{1, 1}, MacA[:]...)
	nd := func(src, dst string, m icmp, mutate func(*frame)) []byte {
		return fromA(func(f *frame) {
			f.Src, f.Dst, f.L4, f.Hops = Ip(src), Ip(dst), m, 255
			mutate(f)
		}).bytes()
	}
	answered := func(name, src, dst, target string, options ...byte) verdictCase {
		return verdictCase{
			name: name, device: w.podA, in: nd(src, dst, solicitation(target, options...), unchanged),
			verdict: actRedirect, counts: one("from_pod/replied"),
			out: frame{
				EthDst: MacA, EthSrc: state.VirtualMAC, Src: Ip(target), Dst: Ip(src), Hops: 255, L4: advertisement(target),
			}.bytes(),
		}
	}
	own := "fd10:0:0:1::10"
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		answered("for a neighbour, by multicast", own, "ff02::1:ff00:11", "fd10:0:0:1::11", source...),
		answered("for a neighbour, without an option", own, "fd10:0:0:1::11", "fd10:0:0:1::11"),
		answered("with more options than the answer has room for", own, "ff02::1:ff00:11", "fd10:0:0:1::11",
			append(source, 14, 1, 1, 2, 3, 4, 5, 6)...),
		answered("for the gateway's link-local address", own, "ff02::1:ff00:1", "fe80::1", source...),
		answered("from the link-local address", linkLocalA, "ff02::1:ff00:1", "fe80::1", source...),
		dropped("for the own address", w.podA, nd(own, "ff02::1:ff00:10", solicitation(own), unchanged), "nd_own"),
		dropped("duplicate address detection", w.podA, nd("::", "ff02::1:ff00:10", solicitation(own), unchanged), "nd_own"),
		dropped("from another link-local address", w.podA,
			nd("fe80::1234", "ff02::1:ff00:1", solicitation("fe80::1"), unchanged), "spoofed_ip"),
		dropped("from another address", w.podA,
			nd("fd10:0:0:1::11", "ff02::1:ff00:1", solicitation("fe80::1"), unchanged), "spoofed_ip"),
		dropped("that has travelled", w.podA,
			nd(own, "ff02::1:ff00:1", solicitation("fe80::1"), func(f *frame) { f.Hops = 254 }), "bad_header"),
		dropped("for a multicast target", w.podA, nd(own, "ff02::1:ff00:1", solicitation("ff02::5"), unchanged), "bad_header"),
		dropped("in a fragment", w.podA,
			nd(own, "ff02::1:ff00:1", solicitation("fe80::1"), func(f *frame) { f.Fragment = &fragment{0, true} }), "nd_other"),
		dropped("an advertisement", w.podA, nd(own, "ff02::1", advertisement(own), unchanged), "nd_other"),
		dropped("an advertisement behind an extension header, to a pod", w.podA,
			nd(own, "fd10:0:0:1::11", advertisement(own), func(f *frame) {
				f.Extensions = []extension{{60, make([]byte, 6)}}
			}), "nd_other"),
		dropped("a router advertisement", w.podA,
			nd(linkLocalA, "fd10:0:0:1::11", icmp{V6: true, Type: 134, Body: make([]byte, 12)}, unchanged), "nd_other"),
		dropped("a router solicitation", w.podA,
			nd(linkLocalA, "ff02::2", icmp{V6: true, Type: 133, Body: make([]byte, 4)}, unchanged), "router_solicitation"),
		dropped("a multicast listener report", w.podA,
			nd(linkLocalA, "ff02::16", icmp{V6: true, Type: 143, Body: make([]byte, 24)}, func(f *frame) {
				f.Extensions = []extension{{0, []byte{5, 2, 0, 0, 1, 0}}}
			}), "mld"),
	})
}

func TestTheNodesInterfaceReachesItsVPCOnly(t *testing.T) {
	w := newWorld(t)
	node := func(mutate func(*frame)) frame {
		return fromA(func(f *frame) {
			f.EthSrc, f.Src, f.Dst = macNode, Ip("10.8.1.2"), Ip("10.8.1.10")
			mutate(f)
		})
	}
	toNode := fromA(func(f *frame) { f.Src, f.Dst = Ip("10.8.1.10"), Ip("10.8.1.2") })
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		{
			name: "to a pod", device: w.node, in: node(unchanged).bytes(), verdict: actRedirect,
			out: node(func(f *frame) { f.EthDst, f.EthSrc = MacA, state.VirtualMAC }).bytes(), counts: one("from_pod/forwarded_local"),
		},
		{
			name: "from a pod", device: w.main, in: toNode.bytes(), verdict: actRedirect,
			out:    toNode.with(func(f *frame) { f.EthDst, f.EthSrc = macNode, state.VirtualMAC }).bytes(),
			counts: one("from_pod/forwarded_local"),
		},
		dropped("to the outside", w.node, node(func(f *frame) { f.Dst = Ip("198.51.100.1") }).bytes(), "outside_default_vpc"),
		dropped("to a shared service", w.node, node(func(f *frame) { f.Dst = Ip("10.96.0.10") }).bytes(), "outside_default_vpc"),
		dropped("to the node's shadow", w.node, node(func(f *frame) { f.Dst = Ip("169.254.64.1") }).bytes(), "outside_default_vpc"),
		dropped("under an address of its own outside the VPC", w.node,
			node(func(f *frame) { f.Src = Ip("192.0.2.1") }).bytes(), "spoofed_ip"),
	})
}

func TestMarksDoNotFollowAPacketIntoAVPC(t *testing.T) {
	w := newWorld(t)
	toLocal := frame{EthDst: state.VirtualMAC, EthSrc: macNode, Src: Ip("10.8.1.2"), Dst: Ip("10.8.1.10"), L4: udp{Sport: 1, Dport: 2}}
	toRemote := fromA(func(f *frame) { f.Dst = Ip("10.0.1.20") })
	for name, c := range map[string]struct {
		device int
		in     frame
	}{"to this node": {w.node, toLocal}, "to another": {w.podA, toRemote}} {
		// What is not ours stays.
		if _, _, mark := runMarked(t, w.objects.AliothFromPod, c.device, c.in.bytes(), state.MarkShared|0x4000); mark != 0x4000 {
			t.Errorf("%s: the mark is %#x", name, mark)
		}
	}
}
