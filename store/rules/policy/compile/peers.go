// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"

	rows "github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy"
)

// Peer is an identity of the VPC of a set, or of the backends of shared services.
type Peer struct {
	policy.Identity
	// Omitted are the keys of labels that exist and whose values are not known, in their order.
	Omitted []string
}

// Omits reports whether the value of the label with a key is not known.
func (p *Peer) Omits(key string) bool {
	_, found := slices.BinarySearch(p.Omitted, key)
	return found
}

// Row is the row of a peer in a set.
type Row struct {
	// List is nil for a peer that has no row.
	List *List
	// Undecided are the policies with a rule whose selector asks for an omitted key: without the key
	// the rule is not decided. The list fails closed.
	Undecided []rows.Key
}

// peerParts are the selections of peers by rules.
type peerParts struct {
	// byNamespace are the selections of one namespace; "" for all others.
	byNamespace map[string][]podPart
	// rules are all rules that match pods, in their order.
	rules []*rule
}

// podPart is a selection of pods with the index of its rule.
type podPart struct {
	rule int
	pods *rows.Pods
}

var everyPod = &rows.Pods{}

func (p *peerParts) add(r *rule, pods *rows.Pods) {
	if n := len(p.rules); n == 0 || p.rules[n-1] != r {
		p.rules = append(p.rules, r)
	}
	p.byNamespace[pods.Namespace] = append(p.byNamespace[pods.Namespace], podPart{len(p.rules) - 1, pods})
}

// everyone adds a rule that matches all peers, if it has ports that only the peer knows. netParts has
// its other ports.
func (p *peerParts) everyone(r *rule) {
	if len(r.names) > 0 {
		p.add(&rule{Rule: r.Rule, tier: r.tier, policy: r.policy, names: r.names}, everyPod)
	}
}

// Peer returns the row of an identity.
func (s *Set) Peer(peer *Peer) (row Row) {
	answers := make([]policy.Answer, len(s.peers.rules))
	for _, list := range [][]podPart{s.peers.byNamespace[peer.Namespace], s.peers.byNamespace[""]} {
		for _, one := range list {
			answers[one.rule] = max(answers[one.rule], policy.Selects(one.pods, &peer.Identity, peer.Omits))
		}
	}
	var parts []part
	for i, answer := range answers {
		r := s.peers.rules[i]
		one := r.partFor(peer.Ports)
		if answer == policy.Undecided {
			row.undecided(r.policy)
			refused, ok := one.refusal()
			if !ok {
				continue
			}
			one = refused
		}
		if answer != policy.No && (one.all || len(one.ports) > 0) {
			parts = append(parts, one)
		}
	}
	row.List = s.lists.of(parts)
	return row
}

// clients returns the list of the clients of shared services: their labels are of another VPC, so only
// selectors without conditions match them.
func (s *Set) clients() *List {
	var parts []part
	for _, one := range s.peers.byNamespace[""] {
		r := s.peers.rules[one.rule]
		if len(one.pods.Namespaces)+len(one.pods.Pods) == 0 && s.direction == rows.Ingress && (r.all || len(r.ranges) > 0) {
			parts = append(parts, r.partFor(nil))
		}
	}
	return s.lists.of(parts)
}

// partFor returns a rule for a destination with some named ports.
func (r *rule) partFor(ports []policy.Port) part {
	ranges := r.ranges
	for _, name := range r.names {
		ranges = append(ranges[:len(ranges):len(ranges)], named(name, ports)...)
	}
	return part{r.Rule, r.tier, r.all, ranges}
}

func (r *Row) undecided(key rows.Key) {
	if n := len(r.Undecided); n == 0 || r.Undecided[n-1] != key {
		r.Undecided = append(r.Undecided, key)
	}
}
