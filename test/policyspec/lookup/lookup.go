// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lookup judges packets by the rows of maps alone, as the programs of the nodes do
// (docs/design/appendix/165-policies-in-packets.md). It is a model for tests.
package lookup

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy/compile"
)

// Numbers of peers without a set of labels.
const (
	Node    = 1
	Outside = 2
	Client  = 3
	first   = 256
)

// Isolated is the rank that stands for the isolation of a pod.
const Isolated = 1<<30 - 1

// PeerKey is a key of alioth_policy_peers. The rows of set 0 are the known identities of a VPC, and of
// VNI 0 the known identities of shared services.
type PeerKey struct {
	VNI, Set uint32
	Shared   bool
	Identity uint32
}

// NetKey is a key of alioth_policy_nets.
type NetKey struct {
	VNI, Set uint32
	Prefix   netip.Prefix
}

// PortKey is a key of alioth_policy_ports.
type PortKey struct {
	VNI, List uint32
	Protocol  compile.Protocol
	Bits      uint8
	Port      uint16
}

// Maps has the rows of the maps that a judgement reads.
type Maps struct {
	Peers map[PeerKey]uint32
	Nets  map[NetKey]uint32
	Ports map[PortKey]compile.Rules
}

// NewMaps returns empty Maps.
func NewMaps() *Maps {
	return &Maps{Peers: map[PeerKey]uint32{}, Nets: map[NetKey]uint32{}, Ports: map[PortKey]compile.Rules{}}
}

// Guard has the set of an interface in one direction.
type Guard struct {
	VNI, Set uint32
	Isolated bool
}

// Packet is a packet as a judged interface sees it.
type Packet struct {
	// Shared is true for a peer that is a backend of a shared service.
	Shared bool
	// Identity of the peer.
	Identity uint32
	// IPs are the addresses of the peer: its own, and the address of its shared service.
	IPs      []netip.Addr
	Protocol compile.Protocol
	Port     uint16
}

// Verdict has the rank of the rule that decides, 0 for none.
type Verdict struct {
	Allowed, Unknown bool
	Rank             uint32
}

// Judge returns the verdict about a packet.
func (m *Maps) Judge(g Guard, p Packet) Verdict {
	if g.Set == 0 {
		return Verdict{Allowed: true}
	}
	var found []compile.Rules
	list, known := m.Peers[PeerKey{g.VNI, g.Set, p.Shared, p.Identity}]
	if !known && p.Identity >= first {
		set0 := PeerKey{g.VNI, 0, p.Shared, p.Identity}
		if p.Shared {
			set0.VNI = 0
		}
		if _, known = m.Peers[set0]; !known {
			return Verdict{Unknown: true}
		}
	}
	found = append(found, m.rules(g.VNI, list, p))
	for _, ip := range p.IPs {
		found = append(found, m.rules(g.VNI, m.net(g, ip), p))
	}
	return decide(g, found)
}

// decide asks the tiers in their order.
func decide(g Guard, found []compile.Rules) Verdict {
	for tier := range policy.Baseline + 1 {
		var first compile.Rule
		for _, rules := range found {
			if one := rules[tier]; one.Action != 0 && (first.Action == 0 || one.Rank < first.Rank) {
				first = one
			}
		}
		switch {
		case first.Action == policy.Accept, first.Action == policy.Deny:
			return Verdict{Allowed: first.Action == policy.Accept, Rank: first.Rank}
		case first.Action == 0 && tier == policy.Namespaced && g.Isolated:
			return Verdict{Rank: Isolated}
		}
	}
	return Verdict{Allowed: true}
}

// net finds the row with the longest prefix.
func (m *Maps) net(g Guard, ip netip.Addr) uint32 {
	mapped := netip.AddrFrom16(ip.As16())
	for bits := 128; bits >= 0; bits-- {
		if list, ok := m.Nets[NetKey{g.VNI, g.Set, netip.PrefixFrom(mapped, bits).Masked()}]; ok {
			return list
		}
	}
	return 0
}

// rules finds the row with the longest prefix.
func (m *Maps) rules(vni, list uint32, p Packet) compile.Rules {
	for bits := 16; bits >= 0 && list != 0; bits-- {
		key := PortKey{vni, list, p.Protocol, uint8(bits), uint16(uint32(p.Port) >> (16 - bits) << (16 - bits))}
		if rules, ok := m.Ports[key]; ok {
			return rules
		}
	}
	return compile.Rules{}
}

// Adder adds sets to Maps, with numbers for their lists.
type Adder struct {
	Maps  *Maps
	lists map[string]uint32
}

// NewAdder returns an Adder for empty Maps.
func NewAdder() *Adder { return &Adder{Maps: NewMaps(), lists: map[string]uint32{}} }

// Nets adds the rows of a set that do not depend on peers.
func (a *Adder) Nets(t testing.TB, vni, number uint32, set *compile.Set) {
	t.Helper()
	for _, net := range set.Nets {
		key := NetKey{vni, number, net.Prefix}
		if _, twice := a.Maps.Nets[key]; twice || net.Prefix != net.Prefix.Masked() {
			t.Errorf("%v is there twice, or has bits behind its prefix", net.Prefix)
		}
		a.Maps.Nets[key] = a.list(t, vni, net.List)
	}
	if set.Clients != nil {
		a.Maps.Peers[PeerKey{VNI: vni, Set: number, Identity: Client}] = a.list(t, vni, set.Clients)
	}
}

// Peer adds the row of a peer, and marks the peer as known.
func (a *Adder) Peer(t testing.TB, key PeerKey, row compile.Row) {
	t.Helper()
	if row.List != nil {
		a.Maps.Peers[key] = a.list(t, key.VNI, row.List)
	}
	key.Set = 0
	if key.Shared {
		key.VNI = 0
	}
	a.Maps.Peers[key] = 0
}

// list adds the rows of a list once per VNI, and returns its number.
func (a *Adder) list(t testing.TB, vni uint32, list *compile.List) uint32 {
	t.Helper()
	if list == nil {
		return 0
	}
	number, known := a.lists[list.Content]
	if !known {
		number = uint32(len(a.lists) + 1)
		a.lists[list.Content] = number
	}
	for _, one := range list.Ports {
		key := PortKey{vni, number, one.Protocol, one.Bits, one.Port}
		if uint32(one.Port)<<one.Bits&0xffff != 0 {
			t.Errorf("%+v has bits behind its prefix", key)
		}
		if before, ok := a.Maps.Ports[key]; ok && before != one.Rules {
			t.Errorf("%+v has %v and %v", key, before, one.Rules)
		}
		a.Maps.Ports[key] = one.Rules
	}
	return number
}
