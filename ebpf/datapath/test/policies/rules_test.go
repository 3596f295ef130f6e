// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"testing"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// both guards both directions by one set.
func both(set uint32, flags bpf.AliothGuardedFlag) bpf.AliothGuard {
	one := bpf.AliothGuarded{Set: set, Flags: flags}
	return bpf.AliothGuard{Ingress: one, Egress: one}
}

// tierCase is a packet to TCP port 80 that one list judges.
type tierCase struct {
	name   string
	flags  bpf.AliothGuardedFlag
	rules  []bpf.AliothPolicyRule
	allows bool
	rank   bpf.AliothPolicyRule
}

var tierCases = []tierCase{
	{"no rule", 0, nil, true, 0},
	{"no rule of an isolated pod", isolated, nil, false, bpf.AliothPolicyRuleRULE_RANK},
	{"accepted by an administrator", isolated, []bpf.AliothPolicyRule{accept(3), none, deny(1)}, true, 3},
	{"denied by an administrator", 0, []bpf.AliothPolicyRule{deny(3), accept(1), accept(2)}, false, 3},
	{"passed to a developer", isolated, []bpf.AliothPolicyRule{pass, accept(2), deny(3)}, true, 2},
	{"passed to the isolation", isolated, []bpf.AliothPolicyRule{pass, none, accept(3)}, false, bpf.AliothPolicyRuleRULE_RANK},
	{"passed to the baseline", 0, []bpf.AliothPolicyRule{pass, none, deny(3)}, false, 3},
	{"passed to nothing", 0, []bpf.AliothPolicyRule{pass}, true, 0},
	{"allowed by a developer", isolated, []bpf.AliothPolicyRule{none, accept(2), deny(3)}, true, 2},
	{"denied by a developer", isolated, []bpf.AliothPolicyRule{none, deny(2), accept(3)}, false, 2},
	{"denied by the baseline", 0, []bpf.AliothPolicyRule{none, none, deny(0)}, false, 0},
	{"accepted by the baseline", 0, []bpf.AliothPolicyRule{none, none, accept(5)}, true, 5},
	{"hidden from the baseline by the isolation", isolated, []bpf.AliothPolicyRule{none, none, accept(5)}, false, bpf.AliothPolicyRuleRULE_RANK},
}

func TestRules_OfEachTier_DecideByOrder(t *testing.T) {
	s := newScene(t, 64, bpf.AliothGuard{})
	for i, c := range tierCases {
		set := uint32(i + 1)
		s.guard(t, device, both(set, c.flags))
		s.peer(t, set, web, set)
		s.any(t, set, c.rules...)
		wantIn, wantOut := allowed, allowed
		if !c.allows {
			wantIn, wantOut = noIngress, noEgress
		}
		s.forget(t)
		s.want(t, c.name+", received", received(syn(1000, 80)), ingress, web, wantIn)
		s.want(t, c.name+", received over IPv6", over6(received(syn(1000, 80))), ingress, web, wantIn)
		s.want(t, c.name+", sent", sent(syn(1000, 80)), egress, web, wantOut)
		if c.rank == 0 && (len(c.rules) < 3 || c.rules[2] != deny(0)) {
			continue
		}
		if got := s.hit(t, set, c.rank); got.Packets != 3 || got.Flows != 3 {
			t.Errorf("%s: the rule has %d packets and %d flows, want 3", c.name, got.Packets, got.Flows)
		}
	}
}

func TestLists_IdentityAndAddress_EarlierRuleDecides(t *testing.T) {
	for _, c := range []struct {
		name        string
		byIdentity  []bpf.AliothPolicyRule
		byAddress   []bpf.AliothPolicyRule
		want        string
		wantFromDNS string
	}{
		{"only by identity", []bpf.AliothPolicyRule{none, accept(1)}, nil, allowed, noIngress},
		{"only by address", nil, []bpf.AliothPolicyRule{none, accept(1)}, allowed, allowed},
		{"identity first", []bpf.AliothPolicyRule{accept(1)}, []bpf.AliothPolicyRule{deny(2)}, allowed, noIngress},
		{"address first", []bpf.AliothPolicyRule{accept(2)}, []bpf.AliothPolicyRule{deny(1)}, noIngress, noIngress},
		{"pass by address first", []bpf.AliothPolicyRule{accept(2)}, []bpf.AliothPolicyRule{pass}, noIngress, noIngress},
		{"other tiers", []bpf.AliothPolicyRule{pass}, []bpf.AliothPolicyRule{none, accept(7)}, allowed, allowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, 64, both(1, isolated))
			s.peer(t, 1, web, 10)
			s.net(t, 1, "10.0.2.0/24", 20)
			s.any(t, 10, c.byIdentity...)
			s.any(t, 20, c.byAddress...)
			s.want(t, "both", received(syn(1000, 80)), ingress, web, c.want)
			s.want(t, "address alone", received(syn(1001, 80)), ingress, db, c.wantFromDNS)
			s.want(t, "address of another family", over6(received(syn(1002, 80))), ingress, db, noIngress)
		})
	}
}

func TestNets_LongestPrefix_DecidesAlone(t *testing.T) {
	s := newScene(t, 64, both(1, isolated))
	s.any(t, 1, none, accept(1))
	s.any(t, 2, deny(0))
	s.net(t, 1, "10.0.0.0/8", 1)
	s.net(t, 1, "10.0.2.0/24", 2)
	s.net(t, 1, "fd10::/16", 1)
	s.net(t, 2, "0.0.0.0/0", 1) // of another set
	s.want(t, "in the exception", received(syn(1000, 80)), ingress, bpf.AliothIdentityIDENTITY_OUTSIDE, noIngress)
	beside := received(syn(1000, 80))
	beside.Src = wire.IP("10.0.3.20")
	s.want(t, "beside it", beside, ingress, bpf.AliothIdentityIDENTITY_OUTSIDE, allowed)
	beside.Src = wire.IP("11.0.0.1")
	s.want(t, "in no range", beside, ingress, bpf.AliothIdentityIDENTITY_OUTSIDE, noIngress)
	s.want(t, "over IPv6", over6(received(syn(1000, 80))), ingress, bpf.AliothIdentityIDENTITY_OUTSIDE, allowed)
}

func TestPorts_RangesAndProtocols_Match(t *testing.T) {
	s := newScene(t, 64, both(1, isolated))
	s.peer(t, 1, web, 1)
	s.ports(t, 1, state.ProtoTCP, 8080, 12, none, accept(1)) // 8080 to 8095
	s.ports(t, 1, state.ProtoTCP, 8084, 16, deny(0))
	s.ports(t, 1, state.ProtoUDP, 53, 16, none, accept(2))
	s.ports(t, 1, protoSCTP, 0, 0, none, accept(3))
	s.peer(t, 1, db, 2)
	s.ports(t, 2, 0, 0, 0, none, accept(4))
	echo := wire.ICMP{Type: 8, Body: []byte{0, 7, 0, 1}}
	sctp := wire.Raw{Proto: protoSCTP, Data: append([]byte{0x04, 0, 0x1f, 0x90}, make([]byte, 8)...)}
	for _, c := range []struct {
		name string
		l4   wire.Transport
		from bpf.AliothIdentity
		want string
	}{
		{"the first port", syn(1000, 8080), web, allowed},
		{"the last port", syn(1001, 8095), web, allowed},
		{"the port behind", syn(1002, 8096), web, noIngress},
		{"the port before", syn(1003, 8079), web, noIngress},
		{"a port inside with its own rule", syn(1004, 8084), web, noIngress},
		{"the source port counts nothing", syn(8080, 80), web, noIngress},
		{"a datagram to the port", wire.UDP{Sport: 1000, Dport: 8080}, web, noIngress},
		{"a datagram to its port", wire.UDP{Sport: 1000, Dport: 53}, web, allowed},
		{"SCTP to any port", sctp, web, allowed},
		{"an echo request, no such rule", echo, web, noIngress},
		{"an echo request", echo, db, allowed},
		{"another protocol", wire.Raw{Proto: 47, Data: make([]byte, 8)}, db, allowed},
		{"TCP by a rule of others", syn(1005, 80), db, noIngress},
	} {
		s.forget(t)
		s.want(t, c.name, received(c.l4), ingress, c.from, c.want)
	}
}
