// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"encoding/binary"
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
	// rules are all rules that match pods, in their order.
	rules []*rule
	// selections are the different selections, and byContent their indexes.
	selections []selection
	byContent  map[string]int
	// byNamespace has the indexes of the selections of one namespace; "" for all others.
	byNamespace map[string][]int
	// named is true if a rule has ports whose numbers the peer has.
	named bool
	// made has the rows of peers by what their rows depend on.
	made map[string]Row
}

// selection is a selection of pods with the indexes of its rules.
type selection struct {
	pods  *rows.Pods
	rules []int
}

func newPeerParts() peerParts {
	return peerParts{byContent: map[string]int{}, byNamespace: map[string][]int{}, made: map[string]Row{}}
}

var everyPod = &rows.Pods{}

func (p *peerParts) add(r *rule, pods *rows.Pods) {
	if n := len(p.rules); n == 0 || p.rules[n-1] != r {
		p.rules = append(p.rules, r)
	}
	p.named = p.named || len(r.names) > 0
	content := contentOfPods(pods)
	i, known := p.byContent[content]
	if !known {
		i = len(p.selections)
		p.byContent[content] = i
		p.selections = append(p.selections, selection{pods: pods})
		p.byNamespace[pods.Namespace] = append(p.byNamespace[pods.Namespace], i)
	}
	p.selections[i].rules = append(p.selections[i].rules, len(p.rules)-1)
}

// contentOfPods returns a text that is equal for equal selections.
func contentOfPods(pods *rows.Pods) string {
	b := appendText(nil, pods.Namespace)
	for _, selector := range []rows.Selector{pods.Namespaces, pods.Pods} {
		b = binary.AppendUvarint(b, uint64(len(selector)))
		for i := range selector {
			r := &selector[i]
			b = binary.AppendUvarint(append(appendText(b, r.Key), byte(r.Operator)), uint64(len(r.Values)))
			for _, value := range r.Values {
				b = appendText(b, value)
			}
		}
	}
	return string(b)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// everyone adds a rule that matches all peers, if it has ports that only the peer knows. netParts has
// its other ports.
func (p *peerParts) everyone(r *rule) {
	if len(r.names) > 0 {
		p.add(&rule{Rule: r.Rule, tier: r.tier, policy: r.policy, names: r.names}, everyPod)
	}
}

// Peer returns the row of an identity.
func (s *Set) Peer(peer *Peer) Row {
	var key []byte
	for _, list := range [][]int{s.peers.byNamespace[peer.Namespace], s.peers.byNamespace[""]} {
		for _, i := range list {
			if answer := policy.Selects(s.peers.selections[i].pods, &peer.Identity, peer.Omits); answer != policy.No {
				key = append(binary.AppendUvarint(key, uint64(i)), byte(answer))
			}
		}
	}
	if len(key) == 0 {
		return Row{}
	}
	answers := key
	if s.peers.named {
		key = append(binary.AppendUvarint(nil, uint64(len(key))), key...)
		for _, port := range peer.Ports {
			key = binary.BigEndian.AppendUint16(appendText(appendText(key, port.Name), port.Protocol), port.Port)
		}
	}
	row, known := s.peers.made[string(key)]
	if !known {
		row = s.newRow(answers, peer.Ports)
		s.peers.made[string(key)] = row
	}
	return row
}

// newRow returns the row of a peer from the answers of selections.
func (s *Set) newRow(encoded []byte, ports []policy.Port) (row Row) {
	answers := make([]policy.Answer, len(s.peers.rules))
	for len(encoded) > 0 {
		i, n := binary.Uvarint(encoded)
		for _, rule := range s.peers.selections[i].rules {
			answers[rule] = max(answers[rule], policy.Answer(encoded[n]))
		}
		encoded = encoded[n+1:]
	}
	var parts []part
	for i, answer := range answers {
		r := s.peers.rules[i]
		one := r.partFor(ports)
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
	i, exists := s.peers.byContent[contentOfPods(everyPod)]
	if !exists || s.direction != rows.Ingress {
		return nil
	}
	var parts []part
	for _, rule := range s.peers.selections[i].rules {
		if r := s.peers.rules[rule]; r.all || len(r.ranges) > 0 {
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
