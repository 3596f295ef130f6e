// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Times without a packet after which flows have ended.
const (
	opening = time.Minute + 2*time.Second
	closing = 12 * time.Second
)

// refusedBy returns the error of a router or host about a packet.
func refusedBy(about wire.Frame) wire.ICMP {
	if about.Src.Is6() {
		return wire.Quoting(wire.ICMP{V6: true, Type: 1, Code: 4}, about)
	}
	return wire.Quoting(wire.ICMP{Type: 3, Code: 3}, about)
}

func TestICMPError_QuotedFlow_MustBeKnown(t *testing.T) {
	s := guardedIn(t)
	datagram := sent(wire.UDP{Sport: 1000, Dport: 53})
	router := func(f wire.Frame) wire.Frame {
		f.Src = wire.IP("10.0.9.1")
		return f
	}
	s.want(t, "before the flow", received(refusedBy(datagram)), ingress, db, noIngress)
	s.want(t, "the datagram", datagram, egress, db, allowed)
	s.want(t, "an error of its receiver", received(refusedBy(datagram)), ingress, db, allowed)
	s.want(t, "an error of a router", router(received(refusedBy(datagram))), ingress, bpf.AliothIdentityIDENTITY_UNKNOWN, allowed)
	s.want(t, "about other ports", received(refusedBy(sent(wire.UDP{Sport: 1000, Dport: 54}))), ingress, db, noIngress)
	s.want(t, "about another's packet", received(refusedBy(received(wire.UDP{Sport: 53, Dport: 1000}))), ingress, db, noIngress)
	s.want(t, "cut short", received(wire.ICMP{Type: 3, Body: make([]byte, 12)}), ingress, db, noIngress)

	from := received(wire.UDP{Sport: 1000, Dport: 80})
	s.want(t, "an error of the pod without a flow", sent(refusedBy(from)), egress, web, noEgress)
	s.want(t, "a datagram from web", from, ingress, web, allowed)
	s.want(t, "the pod's error about it", sent(refusedBy(from)), egress, web, allowed)

	six := over6(datagram)
	s.want(t, "the datagram over IPv6", six, egress, db, allowed)
	s.want(t, "an error over IPv6", over6(received(refusedBy(six))), ingress, db, allowed)
	echo := sent(wire.ICMP{Type: 8, Body: []byte{0, 7, 0, 1}})
	s.want(t, "an echo request", echo, egress, db, allowed)
	s.want(t, "an error about it", received(refusedBy(echo)), ingress, db, allowed)
	bpftest.Must(t, s.Peers.Delete(bpf.AliothPolicyPeer{Vni: vni, Set: 2, Identity: db}))
	s.known(t, vni, db)
	s.epoch(t, 1)
	s.want(t, "after the rules have changed", received(refusedBy(datagram)), ingress, db, noEgress)
}

func TestFragment_LaterOne_FollowsJudgedFirst(t *testing.T) {
	s := guardedIn(t)
	first, later := world.DatagramIn(received(nil), wire.UDP{Sport: 1000, Dport: 80}, 1)
	s.want(t, "before the first", later, ingress, web, noIngress)
	s.want(t, "the first", first, ingress, web, allowed)
	s.want(t, "a later one", later, ingress, web, allowed)
	s.want(t, "in the other direction", wire.Frame{Src: later.Dst, Dst: later.Src, ID: later.ID, Fragment: later.Fragment, L4: later.L4}, egress, web, noEgress)
	s.want(t, "of the first's bytes", later.With(func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 2} }), ingress, web, noIngress)
	s.want(t, "of another sender", later.With(func(f *wire.Frame) { f.Src = wire.IP("10.0.2.21") }), ingress, web, noIngress)
	refused, rest := world.DatagramIn(received(nil), wire.UDP{Sport: 1000, Dport: 80}, 2)
	s.want(t, "the first of another identity", refused, ingress, db, noIngress)
	s.want(t, "the rest of it", rest, ingress, db, noIngress)
	first6, later6 := world.DatagramIn(over6(sent(nil)), wire.UDP{Sport: 1000, Dport: 80}, 3)
	s.want(t, "before the first over IPv6", later6, egress, db, noEgress)
	s.want(t, "the first over IPv6", first6, egress, db, allowed)
	s.want(t, "a later one over IPv6", later6, egress, db, allowed)
	s.guard(t, device, bpf.AliothGuard{Egress: bpf.AliothGuarded{Set: 2, Flags: isolated}})
	s.want(t, "in a direction that is not judged", rest, ingress, db, allowed)
}

func TestSharedService_BackendOrVirtualAddress_Judged(t *testing.T) {
	const how = egress | outside | shared
	s := guardedIn(t)
	s.any(t, 4, none, accept(9))
	s.want(t, "a backend without an identity", sent(syn(1000, 53)), how, asked, unknown)
	s.known(t, vni, db)
	s.want(t, "the same address in the VPC", sent(syn(1000, 53)), how, asked, unknown)
	s.known(t, 0, web)
	s.want(t, "an identity that is not known", sent(syn(1000, 53)), how, asked, unknown)
	bpftest.Must(t, s.Peers.Put(bpf.AliothPolicyPeer{Space: 1, Identity: web}, uint32(0)))
	s.want(t, "no rule", sent(syn(1000, 53)), how, asked, noEgress)
	key := bpf.AliothConnKey{
		Vni: vni, Pod: bpf.EncodeAddr(wire.IP(podIP)), Peer: bpf.EncodeAddr(wire.IP(peerIP)), PodPort: bpf.NetworkOrder(1000),
		PeerPort: bpf.NetworkOrder(53), Direction: bpf.AliothConnDirectionCONN_REVERSE, Proto: state.ProtoTCP,
	}
	bpftest.Must(t, s.Connections.Put(key, bpf.AliothConn{Addr: bpf.EncodeAddr(wire.IP("10.96.0.10"))}))
	s.net(t, 2, "10.96.0.10/32", 4)
	s.want(t, "by the virtual address", sent(syn(1000, 53)), how, asked, allowed)
	s.epoch(t, 1)
	s.want(t, "judged again by a reply", received(segment(53, 1000, wire.FlagACK)), ingress|outside, bpf.AliothIdentityIDENTITY_NODE, allowed)
	s.want(t, "by another service", sent(syn(1001, 53)), how, asked, noEgress)
	bpftest.Must(t, s.Peers.Put(bpf.AliothPolicyPeer{Vni: vni, Set: 2, Space: 1, Identity: web}, uint32(4)))
	s.want(t, "by the backend's identity", sent(syn(1001, 53)), how, asked, allowed)
	s.want(t, "which the VPC does not know", sent(syn(1001, 53)), egress, web, noEgress)
}

func TestOutside_Replies_KeepIdentityOfFirstDirection(t *testing.T) {
	s := guardedIn(t)
	s.net(t, 2, "10.0.2.20/32", 1)
	s.want(t, "to the outside", sent(syn(1000, 443)), egress|outside, bpf.AliothIdentityIDENTITY_OUTSIDE, allowed)
	s.want(t, "its reply", received(segment(443, 1000, wire.FlagACK)), ingress|outside, bpf.AliothIdentityIDENTITY_NODE, allowed)
	s.epoch(t, 1)
	s.want(t, "its reply, judged again", received(segment(443, 1000, wire.FlagACK)), ingress|outside, bpf.AliothIdentityIDENTITY_NODE, allowed)
	s.want(t, "the same address in the VPC", received(segment(443, 1000, wire.FlagACK)), ingress, web, noIngress)
	bpftest.Must(t, s.Nets.Delete(bpf.AliothPolicyNet{Prefixlen: 192, Vni: vni, Set: 2, Ip: bpf.EncodeAddr(wire.IP(peerIP))}))
	s.epoch(t, 2)
	s.want(t, "its reply, not allowed any more", received(segment(443, 1000, wire.FlagACK)), ingress|outside, bpf.AliothIdentityIDENTITY_NODE, noEgress)
}
