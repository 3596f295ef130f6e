// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"testing"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
)

// guardedIn returns a scene whose pod is isolated in both directions. Web may open flows to it;
// the pod may open flows to db.
func guardedIn(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, 64, bpf.AliothGuard{
		Ingress: bpf.AliothGuarded{Set: 1, Flags: isolated},
		Egress:  bpf.AliothGuarded{Set: 2, Flags: isolated},
	})
	s.any(t, 1, none, accept(0))
	s.peer(t, 1, web, 1)
	s.peer(t, 2, db, 1)
	return s
}

func TestFlow_Replies_PassByEntry(t *testing.T) {
	s := guardedIn(t)
	s.want(t, "opening from web", received(syn(1000, 80)), ingress, web, allowed)
	s.want(t, "its reply", sent(segment(80, 1000, wire.FlagSYN|wire.FlagACK)), egress, asked, allowed)
	s.want(t, "data", received(segment(1000, 80, wire.FlagACK)), ingress, web, allowed)
	s.want(t, "the pod opens a flow to web", sent(syn(80, 1001)), egress, web, noEgress)
	s.want(t, "opening to db", over6(sent(syn(2000, 5432))), egress, db, allowed)
	s.want(t, "its reply", over6(received(segment(5432, 2000, wire.FlagSYN|wire.FlagACK))), ingress, db, allowed)
	s.want(t, "a datagram from web", received(wire.UDP{Sport: 1000, Dport: 53}), ingress, web, allowed)
	s.want(t, "its reply", sent(wire.UDP{Sport: 53, Dport: 1000}), egress, asked, allowed)
	if got := s.held(t); got != 3 {
		t.Errorf("the pod has %d flows, want 3", got)
	}
	if got := s.hit(t, 1, 0); got.Packets != 2 || got.Flows != 2 {
		t.Errorf("the rule has %+v, want 2 flows with one judged packet each", got)
	}
}

func TestFlow_TCPWithoutOpening_Refused(t *testing.T) {
	s := guardedIn(t)
	for name, flags := range map[string]uint8{
		"ACK": wire.FlagACK, "SYN and ACK": wire.FlagSYN | wire.FlagACK, "RST": wire.FlagRST, "FIN": wire.FlagFIN | wire.FlagACK, "no flag": 0,
	} {
		s.want(t, name, received(segment(1000, 80, flags)), ingress, web, noIngress)
		s.want(t, name+" sent", sent(segment(80, 1000, flags)), egress, db, noEgress)
	}
	if got := s.held(t); got != 0 {
		t.Errorf("the packets have made %d entries", got)
	}
	s.guard(t, device, bpf.AliothGuard{Ingress: bpf.AliothGuarded{Set: 1, Flags: isolated}})
	s.want(t, "sent, with egress not judged", sent(segment(80, 1000, wire.FlagRST)), egress, db, allowed)
	s.want(t, "received all the same", received(segment(1000, 80, wire.FlagRST)), ingress, web, noIngress)
	s.want(t, "opening to a peer that may not open", sent(syn(2000, 80)), egress, asked, allowed)
	s.want(t, "its reply", received(segment(80, 2000, wire.FlagSYN|wire.FlagACK)), ingress, db, allowed)
}

func TestFlow_OpeningFromOtherSide_JudgedByItself(t *testing.T) {
	s := guardedIn(t)
	echo := func(kind uint8) wire.ICMP { return wire.ICMP{Type: kind, Body: []byte{0, 7, 0, 1}} }
	echo6 := func(kind uint8) wire.ICMP { return wire.ICMP{V6: true, Type: kind, Body: []byte{0, 7, 0, 1}} }
	s.want(t, "opening to db", sent(syn(1000, 80)), egress, db, allowed)
	s.want(t, "the other side opens with the same ports", received(syn(80, 1000)), ingress, db, noIngress)
	s.want(t, "the flow goes on", received(segment(80, 1000, wire.FlagSYN|wire.FlagACK)), ingress, db, allowed)
	s.want(t, "echo request to db", sent(echo(8)), egress, db, allowed)
	s.want(t, "its reply", received(echo(0)), ingress, db, allowed)
	s.want(t, "echo request of db", received(echo(8)), ingress, db, noIngress)
	s.want(t, "echo request over IPv6", over6(sent(echo6(128))), egress, db, allowed)
	s.want(t, "its reply", over6(received(echo6(129))), ingress, db, allowed)
	s.want(t, "echo request of db over IPv6", over6(received(echo6(128))), ingress, db, noIngress)
}

func TestFlow_EndedByReset_PortsUsedAgain(t *testing.T) {
	s := guardedIn(t)
	s.want(t, "opening from web", received(syn(1000, 80)), ingress, web, allowed)
	s.want(t, "the pod resets it", sent(segment(80, 1000, wire.FlagRST|wire.FlagACK)), egress, asked, allowed)
	s.want(t, "the other direction is not open", sent(syn(80, 1000)), egress, web, noEgress)
	s.want(t, "opening with the same ports", received(syn(1000, 80)), ingress, web, allowed)
	s.want(t, "the pod closes", sent(segment(80, 1000, wire.FlagFIN|wire.FlagACK)), egress, asked, allowed)
	if n, err := s.table().Sweep(world.Monotonic(t) + closing); n != 0 || err != nil {
		t.Errorf("%d flows ended, %v, while one side is open", n, err)
	}
	s.want(t, "the peer closes", received(segment(1000, 80, wire.FlagFIN|wire.FlagACK)), ingress, web, allowed)
	s.want(t, "the last packet", sent(segment(80, 1000, wire.FlagACK)), egress, asked, allowed)
	if n, err := s.table().Sweep(world.Monotonic(t) + closing); n != 1 || err != nil {
		t.Errorf("%d flows ended, %v, want the closed one", n, err)
	}
	s.want(t, "data of no flow", received(segment(1000, 80, wire.FlagACK)), ingress, web, noIngress)
}

func TestIdentity_Unknown_RefusedUntilKnown(t *testing.T) {
	s := guardedIn(t)
	stranger := bpf.AliothIdentity(4000)
	s.want(t, "a number without a row", received(syn(1000, 80)), ingress, stranger, unknown)
	s.want(t, "no number", received(syn(1000, 80)), ingress, bpf.AliothIdentityIDENTITY_UNKNOWN, unknown)
	s.want(t, "known, and without a rule", received(syn(1000, 80)), ingress, db, noIngress)
	s.want(t, "a node, without a rule", received(syn(1000, 80)), ingress, bpf.AliothIdentityIDENTITY_NODE, noIngress)
	s.want(t, "an address without an identity", sent(syn(1000, 80)), egress, asked, unknown)
	s.known(t, vni, db)
	s.want(t, "an address with one", sent(syn(1000, 80)), egress, asked, allowed)
	s.want(t, "the same over IPv6", over6(sent(syn(1000, 80))), egress, asked, allowed)

	s.want(t, "a flow from web", received(syn(2000, 80)), ingress, web, allowed)
	s.want(t, "the peer's labels have changed", received(segment(2000, 80, wire.FlagACK)), ingress, stranger, unknown)
	s.peer(t, 0, stranger, 0)
	s.peer(t, 1, stranger, 1)
	s.want(t, "the node knows them", received(segment(2000, 80, wire.FlagACK)), ingress, stranger, allowed)
	s.want(t, "an identity that may not", received(segment(2000, 80, wire.FlagACK)), ingress, db, noIngress)
	s.want(t, "the flow has ended", received(segment(2000, 80, wire.FlagACK)), ingress, stranger, noIngress)
}

func TestEpoch_Changed_JudgedAgainInFirstDirection(t *testing.T) {
	s := guardedIn(t)
	s.known(t, vni, db)
	s.want(t, "opening from web", received(syn(1000, 80)), ingress, web, allowed)
	s.want(t, "opening to db", sent(syn(2000, 5432)), egress, asked, allowed)
	bpftest.Must(t, s.Peers.Delete(bpf.AliothPolicyPeer{Vni: vni, Set: 1, Identity: web}))
	s.want(t, "before the epoch", received(segment(1000, 80, wire.FlagACK)), ingress, web, allowed)
	s.epoch(t, 1)
	s.want(t, "the pod's reply is judged as ingress", sent(segment(80, 1000, wire.FlagACK)), egress, asked, noIngress)
	s.want(t, "and ends the flow", received(segment(1000, 80, wire.FlagACK)), ingress, web, noIngress)
	s.want(t, "db's reply is judged as egress", received(segment(5432, 2000, wire.FlagACK)), ingress, db, allowed)
	if got := s.hit(t, 2, 0); got.Flows != 1 || got.Packets != 2 {
		t.Errorf("the rule has %+v, want a flow that was judged twice", got)
	}
	if got := s.held(t); got != 1 {
		t.Errorf("the pod has %d flows, want 1", got)
	}
	s.guard(t, device, bpf.AliothGuard{Egress: bpf.AliothGuarded{Set: 3, Flags: isolated}})
	s.want(t, "within the epoch", sent(segment(2000, 5432, wire.FlagACK)), egress, asked, allowed)
	s.epoch(t, 2)
	s.want(t, "another set", sent(segment(2000, 5432, wire.FlagACK)), egress, asked, noEgress)
}

func TestRoom_Exhausted_NewFlowsRefused(t *testing.T) {
	s := guardedIn(t)
	flood := func(from, to uint16, want string) {
		t.Helper()
		for port := from; port < to; port++ {
			s.want(t, "opening", received(syn(port, 80)), ingress, web, want)
		}
	}
	flood(1000, 1000+share, allowed)
	flood(2000, 2100, full)
	s.want(t, "a known flow", received(segment(1000, 80, wire.FlagACK)), ingress, web, allowed)
	s.want(t, "the pod's own flow", sent(syn(3000, 80)), egress, db, full)
	if got := s.askAt(t, otherDevice, received(syn(1, 80)), ingress, web); got != allowed {
		t.Errorf("another interface: %s, want %s", got, allowed)
	}
	s.want(t, "the first flow is still there", sent(segment(80, 1000, wire.FlagSYN|wire.FlagACK)), egress, asked, allowed)
	if n, err := s.table().Sweep(world.Monotonic(t) + opening); n != share || err != nil {
		t.Errorf("%d flows ended, %v, want %d half-open ones", n, err, share)
	}
	s.want(t, "after the collection", sent(syn(3000, 80)), egress, db, allowed)

	s.guard(t, device, bpf.AliothGuard{RehearsedIngress: bpf.AliothGuarded{Set: 1, Flags: isolated}})
	flood(4000, 4000+2*share, allowed) // nothing is enforced
	s.guard(t, device, bpf.AliothGuard{Ingress: bpf.AliothGuarded{Set: 1, Flags: isolated}})
	flood(5000, 5001, full)
}

func TestTable_Full_RefusedWithoutEviction(t *testing.T) {
	s := newScene(t, 2, bpf.AliothGuard{Egress: bpf.AliothGuarded{Set: 1, Flags: isolated}})
	s.any(t, 1, none, accept(0))
	s.peer(t, 1, web, 1)
	s.want(t, "the first flow", sent(syn(1000, 80)), egress, web, allowed)
	s.want(t, "the second flow", sent(syn(1001, 80)), egress, web, allowed)
	s.want(t, "no room", sent(syn(1002, 80)), egress, web, full)
	s.want(t, "no room for a flow to the pod", received(syn(1003, 80)), ingress, web, full)
	s.want(t, "the first goes on", received(segment(80, 1000, wire.FlagSYN|wire.FlagACK)), ingress, web, allowed)
	s.epoch(t, 1)
	s.want(t, "the second is judged again", sent(segment(1001, 80, wire.FlagACK)), egress, web, allowed)
	if got := s.held(t); got != 2 {
		t.Errorf("the pod has %d flows, want 2", got)
	}
}

func TestFlow_AddressMovesToOtherInterface_JudgedAnew(t *testing.T) {
	s := guardedIn(t)
	s.want(t, "opening from web", received(syn(1000, 80)), ingress, web, allowed)
	if got := s.askAt(t, otherDevice, received(segment(1000, 80, wire.FlagACK)), ingress, web); got != noIngress {
		t.Errorf("the flow of the former pod: %s, want %s", got, noIngress)
	}
	if got := s.held(t); got != 0 {
		t.Errorf("the former pod has %d flows", got)
	}
}

func TestGuard_Missing_Refused(t *testing.T) {
	s := guardedIn(t)
	bpftest.Must(t, s.Guards.Delete(uint32(device)))
	s.want(t, "to the pod", received(syn(1000, 80)), ingress, web, noIngress)
	s.want(t, "from the pod", sent(syn(1000, 80)), egress, db, noEgress)
}

func TestRehearsal_OnlyItRefuses_CountedAndAllowed(t *testing.T) {
	s := guardedIn(t)
	s.guard(t, device, bpf.AliothGuard{
		Ingress:          bpf.AliothGuarded{Set: 1, Flags: isolated},
		RehearsedIngress: bpf.AliothGuarded{Set: 3, Flags: isolated},
	})
	s.ports(t, 3, 6, 80, 16, none, accept(7))
	s.ports(t, 3, 6, 81, 16, deny(5))
	s.peer(t, 3, web, 3)
	s.want(t, "both allow it", received(syn(1000, 80)), ingress, web, allowed)
	s.want(t, "a rehearsed rule denies it", received(syn(1000, 81)), ingress, web, allowed)
	s.want(t, "the rehearsed isolation refuses it", received(syn(1000, 82)), ingress, web, allowed)
	s.want(t, "both refuse it", received(syn(1000, 82)), ingress, db, noIngress)
	for rank, want := range map[bpf.AliothPolicyRule]uint64{7: 0, 5: 1, bpf.AliothPolicyRuleRULE_RANK: 1} {
		if got := s.hit(t, 3, rank); got.Flows != want {
			t.Errorf("the rehearsed rule %d has %d flows, want %d", rank, got.Flows, want)
		}
	}
}
