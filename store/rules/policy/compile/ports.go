// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"encoding/binary"
	"slices"

	rows "github.com/alioth-net/alioth/store/rows/policy"
)

// Protocol is the number of a protocol in packets.
type Protocol uint8

// Protocols of lists. Others stands for all protocols that have no number of their own here.
const (
	Others Protocol = 0
	TCP    Protocol = 6
	UDP    Protocol = 17
	SCTP   Protocol = 132
)

// protocols are the protocols with ports, by the names of Kubernetes.
var protocols = []struct {
	name   string
	number Protocol
}{{"TCP", TCP}, {"UDP", UDP}, {"SCTP", SCTP}}

// portBits is the number of bits of a port.
const portBits = 16

// Ports has the rules for the ports of a protocol that begin with the first Bits bits of Port. The
// row with the most bits counts, also if it has no rules.
type Ports struct {
	Protocol Protocol
	Bits     uint8
	Port     uint16
	Rules    Rules
}

// List has the rules of peers by protocol and port. Equal lists of a Set are one.
type List struct {
	Ports []Ports
	// Content is equal for equal lists, and different for others.
	Content string
}

// lists has the lists of a set, by their content and by the parts of rules that they are made of.
type lists struct{ byContent, byParts map[string]*List }

func newLists() lists { return lists{map[string]*List{}, map[string]*List{}} }

// of returns the list of parts, which are in the order of their rules. It is nil without rules.
func (l lists) of(parts []part) *List {
	key := keyOf(parts)
	list, known := l.byParts[key]
	if !known {
		list = l.make(parts)
		l.byParts[key] = list
	}
	return list
}

// keyOf returns a text that is equal for parts with equal rules and ports.
func keyOf(parts []part) string {
	b := make([]byte, 0, 16*len(parts))
	for i := range parts {
		p := &parts[i]
		b = binary.AppendUvarint(b, uint64(p.encoded()))
		b = binary.AppendUvarint(b, uint64(len(p.ports)))
		for _, one := range p.ports {
			b = appendText(b, one.Protocol)
			b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, one.First), one.Last)
		}
	}
	return string(b)
}

func (l lists) make(parts []part) *List {
	var ports []Ports
	for _, protocol := range protocols {
		ports = append(ports, compilePorts(protocol.number, spansOf(parts, protocol.name))...)
	}
	ports = append(ports, compilePorts(Others, spansOf(parts, ""))...)
	if len(ports) == 0 {
		return nil
	}
	content := contentOf(ports)
	if l.byContent[content] == nil {
		l.byContent[content] = &List{Ports: ports, Content: content}
	}
	return l.byContent[content]
}

func contentOf(ports []Ports) string {
	b := make([]byte, 0, len(ports)*(4+4*Tiers))
	for i := range ports {
		one := &ports[i]
		b = append(b, byte(one.Protocol), one.Bits)
		b = binary.BigEndian.AppendUint16(b, one.Port)
		for _, r := range one.Rules {
			b = binary.BigEndian.AppendUint32(b, r.encoded())
		}
	}
	return string(b)
}

// span is a range of ports of one rule.
type span struct {
	Rule
	tier        rows.Tier
	first, last uint16
}

// spansOf returns the ranges of a protocol. For "" they are the rules without ports.
func spansOf(parts []part, protocol string) (spans []span) {
	for i := range parts {
		p := &parts[i]
		if p.all {
			spans = append(spans, span{p.Rule, p.tier, 0, 1<<portBits - 1})
			continue
		}
		for _, one := range p.ports {
			if protocol != "" && (one.Protocol == "" || one.Protocol == protocol) {
				spans = append(spans, span{p.Rule, p.tier, one.First, one.Last})
			}
		}
	}
	return spans
}

// segment is a range of ports with equal rules, up to the next segment.
type segment struct {
	first uint32
	rules Rules
}

// compilePorts returns the least rows for ranges, which are in the order of their rules.
func compilePorts(protocol Protocol, spans []span) (ports []Ports) {
	if len(spans) == 0 {
		return nil
	}
	root := newNode(segmentsOf(spans), 0, 0)
	root.emit(Rules{}, func(bits uint8, port uint16, rules Rules) {
		ports = append(ports, Ports{Protocol: protocol, Bits: bits, Port: port, Rules: rules})
	}, 0, 0)
	return ports
}

// segmentsOf cuts the ports where a range begins or ends.
func segmentsOf(spans []span) (segments []segment) {
	cuts := []uint32{0}
	for _, s := range spans {
		cuts = append(cuts, uint32(s.first), uint32(s.last)+1)
	}
	slices.Sort(cuts)
	for _, cut := range slices.Compact(cuts) {
		if cut == 1<<portBits {
			break
		}
		now := segment{first: cut}
		for _, s := range spans {
			if uint32(s.first) <= cut && cut <= uint32(s.last) {
				now.rules.put(s.tier, s.Rule)
			}
		}
		if n := len(segments); n == 0 || segments[n-1].rules != now.rules {
			segments = append(segments, now)
		}
	}
	return segments
}

// put keeps the rule of a tier that is first.
func (r *Rules) put(tier rows.Tier, one Rule) {
	if r[tier].Rank == 0 || one.Rank != 0 && one.Rank < r[tier].Rank {
		r[tier] = one
	}
}

// node is a prefix of ports, for the least number of rows with these rules ("optimal routing table
// constructor", Draves et al., 1999).
type node struct {
	// best are the rules that a row of this prefix may have in a smallest table.
	best        []Rules
	left, right *node
}

// newNode returns the node of the ports from first on, with all prefixes in it.
func newNode(segments []segment, first uint32, bits uint8) *node {
	if len(segments) == 1 {
		return &node{best: []Rules{segments[0].rules}}
	}
	middle := first + 1<<(portBits-bits-1)
	at, found := slices.BinarySearchFunc(segments, middle, func(s segment, port uint32) int {
		return cmp.Compare(s.first, port)
	})
	right := segments[at:]
	if !found {
		right = segments[at-1:]
	}
	n := &node{left: newNode(segments[:at], first, bits+1), right: newNode(right, middle, bits+1)}
	for _, rules := range n.left.best {
		if slices.Contains(n.right.best, rules) {
			n.best = append(n.best, rules)
		}
	}
	if n.best == nil {
		n.best = slices.Concat(n.left.best, n.right.best)
	}
	return n
}

// emit yields the rows of a node, whose ports have the inherited rules without a row.
func (n *node) emit(inherited Rules, yield func(bits uint8, port uint16, rules Rules), first uint32, bits uint8) {
	if !slices.Contains(n.best, inherited) {
		inherited = n.best[0]
		yield(bits, uint16(first), inherited)
	}
	if n.left != nil {
		n.left.emit(inherited, yield, first, bits+1)
		n.right.emit(inherited, yield, first+1<<(portBits-bits-1), bits+1)
	}
}
