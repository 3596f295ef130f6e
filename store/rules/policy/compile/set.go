// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compile turns the policies of a pod into a set: tables that a packet looks up
// (docs/design/165). It is pure.
//
// A packet finds at most one list by the identity of its peer, and one by each address of its peer.
// By protocol and port a list has the first rule of each tier. Of the rules from these lists the
// first one decides its tier; Pass leads to the next tier. Lists are complete: the list of a range
// of addresses has the rules of all ranges around it, and a range of ports likewise.
//
// A set has no row that depends on two identities. So a new identity adds a row, and changes none.
//
// A rule with a part that can't be decided never allows anything: a rule that accepts matches nothing
// there, and a rule that denies or passes denies.
package compile

import (
	rows "github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy"
)

// Tiers is the number of tiers.
const Tiers = int(rows.Baseline) + 1

// Rule is a rule of a set. The zero value stands for the lack of one.
type Rule struct {
	// Rank is the number of the rule in the order of the set, from 1.
	Rank   uint32
	Action rows.Action
}

// encoded returns the rule as one number: 2 bits of the action above 30 bits of the rank.
func (r Rule) encoded() uint32 { return uint32(r.Action)<<30 | r.Rank }

// Rules are the first rules by tier.
type Rules [Tiers]Rule

// Set has the policies of a pod in one direction. Its method Peer keeps the lists that it has made,
// so a Set is not for concurrent use.
type Set struct {
	// Causes are the rules by rank: the rule with rank 1 is the first one. A rule that passes has two
	// ranks, see part.refusal.
	Causes []policy.Cause
	// Isolation is the first policy that refuses what no rule of its tier matches; nil without one.
	Isolation *policy.Cause
	// Nets are the lists by range of addresses, in the order of addresses.
	Nets []Net
	// Unresolved are the ranks of rules with a range of addresses and a named port for egress: an
	// address has no named ports.
	Unresolved []uint32
	// Clients is the list for clients of shared services, nil without one.
	Clients *List

	direction rows.Direction
	peers     peerParts
	lists     lists
}

// New compiles the policies that select a pod, in the order of policy.Ordered, for one direction.
// ports are the named ports of the pod.
func New(direction rows.Direction, policies []*rows.Policy, ports []policy.Port) *Set {
	s := &Set{direction: direction, peers: newPeerParts(), lists: newLists()}
	nets := netParts{ofRule: map[*rule][]int{}}
	for _, p := range policies {
		if !policy.Enforced(p, direction) {
			continue
		}
		for i := range p.Rules[direction] {
			s.add(p, i, ports, &nets)
		}
		if s.Isolation == nil && p.Isolates[direction] {
			s.Isolation = &policy.Cause{Key: p.Key, Tier: p.Tier, Rule: -1}
		}
	}
	s.Nets = nets.compile(s.lists)
	s.Clients = s.clients()
	return s
}

// add adds a rule of a policy.
func (s *Set) add(p *rows.Policy, i int, ports []policy.Port, nets *netParts) {
	in := &p.Rules[s.direction][i]
	s.Causes = append(s.Causes, policy.Cause{Key: p.Key, Tier: p.Tier, Rule: i, RuleName: in.Name})
	r := &rule{
		Rule: Rule{Rank: uint32(len(s.Causes)), Action: in.Action}, tier: p.Tier, policy: p.Key,
		all: len(in.Ports) == 0,
	}
	if in.Action == rows.Pass { // the second rank is of its refusal
		s.Causes = append(s.Causes, s.Causes[r.Rank-1])
	}
	for _, one := range in.Ports {
		switch {
		case one.Name == "":
			r.ranges = append(r.ranges, one)
		case s.direction == rows.Ingress:
			r.ranges = append(r.ranges, named(one, ports)...)
		default:
			r.names = append(r.names, one)
		}
	}
	if in.Everyone {
		nets.everyone(r)
		s.peers.everyone(r)
	}
	for _, peer := range in.Peers {
		if peer.Pods != nil {
			s.peers.add(r, peer.Pods)
		}
		if peer.Block != nil {
			nets.add(r, peer.Block)
		}
	}
	if _, ranged := nets.ofRule[r]; ranged && len(r.names) > 0 {
		s.Unresolved = append(s.Unresolved, r.Rank)
	}
}

// rule is a rule of a policy in one direction.
type rule struct {
	Rule
	tier   rows.Tier
	policy rows.Key
	// all is true for a rule without ports.
	all bool
	// ranges are ports by number. names are ports whose numbers the peer has.
	ranges, names []rows.Ports
}

// named returns the ports of a destination that a named port means.
func named(want rows.Ports, of []policy.Port) (ranges []rows.Ports) {
	for _, one := range of {
		if one.Name == want.Name && (want.Protocol == "" || want.Protocol == one.Protocol) {
			ranges = append(ranges, rows.Ports{Protocol: one.Protocol, First: one.Port, Last: one.Port})
		}
	}
	return ranges
}

// part is a part of a rule that has its own ports.
type part struct {
	Rule
	tier  rows.Tier
	all   bool
	ports []rows.Ports
}

// refusal is the part of a rule that can't be decided: the rule denies there. A rule that accepts has
// none. A rule that passes has it at the next rank: a packet may match the rule by another peer.
func (p part) refusal() (part, bool) {
	switch p.Action {
	case rows.Accept:
		return part{}, false
	case rows.Pass:
		p.Rule = Rule{Rank: p.Rank + 1, Action: rows.Deny}
	}
	return p, true
}
