// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyspec_test

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"github.com/alioth-net/alioth/store/rows/policy"
	rules "github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/policy/compile"
	"github.com/alioth-net/alioth/test/policyspec"
	"github.com/alioth-net/alioth/test/policyspec/lookup"
	"github.com/alioth-net/alioth/test/soak"
)

// TestCompile_RandomWorlds_LikeJudgement compares the rows of sets with the judgement, with the policy
// and the rule that decide. Packets whose ends do not meet have no judgement in the datapath.
func TestCompile_RandomWorlds_LikeJudgement(t *testing.T) {
	eachWorldOf(t, func(t *testing.T, m maker) {
		w, pods := m.world(), m.pods()
		rows := numbered(rowsOf(t, w))
		compiled := compileWorld(t, m, w, pods, rows)
		judging := indexOf(m, decidable(rows))
		for range packetsOfWorld {
			compareRows(t, w, compiled, judging, m.packet(pods))
		}
	})
}

// TestCompile_UndecidableRules_AllowNothingMore compares worlds with the judgement about the rules as
// they are: what can't be decided is refused.
func TestCompile_UndecidableRules_AllowNothingMore(t *testing.T) {
	eachWorldOf(t, func(t *testing.T, m maker) {
		w, pods := m.world(), m.pods()
		rows := rowsOf(t, w)
		whole, decided := indexOf(m, rows), indexOf(m, decidable(numbered(rows)))
		for range packetsOfWorld {
			p := packetOf(w, m.packet(pods))
			if !whole.Judge(&p).Allowed() && decided.Judge(&p).Allowed() {
				t.Fatalf("%+v is refused by the rules, and allowed by their decidable parts", p)
			}
		}
	})
}

// eachWorldOf runs a test with some random worlds, each named by its seed.
func eachWorldOf(t *testing.T, test func(*testing.T, maker)) {
	seed, count := soak.Worlds(t, 10_000, 200)
	for i := range uint64(count) {
		t.Run(soak.World(seed+i), func(t *testing.T) { test(t, newMaker(seed+i)) })
	}
}

// numbered names each rule by its number.
func numbered(in []*policy.Policy) (out []*policy.Policy) {
	for _, row := range in {
		now := *row
		for direction := range now.Rules {
			now.Rules[direction] = slices.Clone(now.Rules[direction])
			for i := range now.Rules[direction] {
				now.Rules[direction][i].Name = strconv.Itoa(i)
			}
		}
		out = append(out, &now)
	}
	return out
}

// decidable splits rules for egress that have ranges of addresses and named ports. The part with both
// matches nothing, or denies.
func decidable(in []*policy.Policy) (out []*policy.Policy) {
	for _, row := range in {
		now := *row
		now.Rules[policy.Egress] = nil
		for _, rule := range row.Rules[policy.Egress] {
			now.Rules[policy.Egress] = append(now.Rules[policy.Egress], split(rule)...)
		}
		out = append(out, &now)
	}
	return out
}

func split(rule policy.Rule) []policy.Rule {
	pods, blocks := rule, rule
	pods.Peers, blocks.Peers, blocks.Ports = nil, nil, nil
	refused := policy.Rule{Name: rule.Name, Action: policy.Deny}
	for _, peer := range rule.Peers {
		if peer.Pods != nil {
			pods.Peers = append(pods.Peers, peer)
			continue
		}
		blocks.Peers = append(blocks.Peers, peer)
	}
	for _, one := range rule.Ports {
		if one.Name == "" {
			blocks.Ports = append(blocks.Ports, one)
			continue
		}
		for _, protocol := range []string{"TCP", "UDP", "SCTP"} {
			if one.Protocol == "" || one.Protocol == protocol {
				refused.Ports = append(refused.Ports, policy.Ports{Protocol: protocol, Last: 65535})
			}
		}
	}
	if len(blocks.Peers) == 0 || len(refused.Ports) == 0 {
		return []policy.Rule{rule}
	}
	out := []policy.Rule{pods}
	if len(blocks.Ports) > 0 {
		out = append(out, blocks)
	}
	if rule.Action != policy.Accept {
		refused.Peers = blocks.Peers
		out = append(out, refused)
	}
	return out
}

// compiledWorld has the sets of all pods, as the rows of maps.
type compiledWorld struct {
	maps *lookup.Maps
	sets map[setOf]guardedSet
	vnis map[string]uint32
}

type setOf struct {
	pod       string
	direction policy.Direction
}

type guardedSet struct {
	set   *compile.Set
	guard lookup.Guard
}

func compileWorld(
	t *testing.T,
	m maker,
	w *policyspec.World,
	pods []policyspec.End,
	rows []*policy.Policy,
) *compiledWorld {
	index, add := indexOf(m, rows), lookup.NewAdder()
	c := &compiledWorld{maps: add.Maps, sets: map[setOf]guardedSet{}, vnis: map[string]uint32{}}
	for i, space := range append(slices.Clone(vpcs), networks...) {
		c.vnis[space] = uint32(i + 1)
	}
	for i := range pods {
		pod := identity(w, &pods[i])
		for direction := range policy.Egress + 1 {
			set := compile.New(direction, index.Subjects(pod), pod.Ports)
			number, vni := uint32(len(c.sets)+1), c.vnis[pod.VPC+pod.Network]
			add.Nets(t, vni, number, set)
			for _, k := range m.Perm(len(pods)) {
				peer := identity(w, &pods[k])
				for _, shared := range []bool{false, true} {
					if peer.Network == pod.Network && (shared || peer.VPC == pod.VPC) {
						key := lookup.PeerKey{VNI: vni, Set: number, Shared: shared, Identity: 256 + uint32(k)}
						add.Peer(t, key, set.Peer(&compile.Peer{Identity: *peer}))
					}
				}
			}
			c.sets[setOf{pods[i].Pod, direction}] = guardedSet{set, lookup.Guard{VNI: vni, Set: number, Isolated: set.Isolation != nil}}
		}
	}
	return c
}

func packetOf(w *policyspec.World, p policyspec.Packet) rules.Packet {
	end := func(e *policyspec.End) rules.End {
		return rules.End{IP: netip.MustParseAddr(e.IP), Pod: identity(w, e), UID: e.Pod, Shared: e.Shared}
	}
	return rules.Packet{From: end(&p.From), To: end(&p.To), Protocol: p.Protocol, Port: uint16(p.Port), Probe: p.Probe}
}

// compareRows judges one packet in both ways, at each of its pods.
func compareRows(t *testing.T, w *policyspec.World, c *compiledWorld, index *rules.Index, p policyspec.Packet) {
	t.Helper()
	meet := p.From.VPC == p.To.VPC && p.From.Network == p.To.Network
	if p.From.Pod == p.To.Pod || p.From.Pod != "" && p.To.Pod != "" && !meet && (!p.To.Shared || p.From.Network != p.To.Network) {
		return
	}
	packet := packetOf(w, p)
	want := index.Judge(&packet)
	if p.From.Pod != "" {
		compareEnd(t, c, &p, &p.From, &p.To, want.Egress, true)
	}
	if p.To.Pod != "" && !p.Probe {
		compareEnd(t, c, &p, &p.To, &p.From, want.Ingress, meet)
	}
}

func compareEnd(t *testing.T, c *compiledWorld, p *policyspec.Packet, self, peer *policyspec.End, want rules.Decision, meet bool) {
	t.Helper()
	direction := policy.Ingress
	if self == &p.From {
		direction = policy.Egress
	}
	number := map[string]compile.Protocol{"TCP": compile.TCP, "UDP": compile.UDP, "SCTP": compile.SCTP}[p.Protocol]
	seen := lookup.Packet{Identity: lookup.Outside, IPs: []netip.Addr{netip.MustParseAddr(peer.IP)}, Protocol: number}
	switch {
	case peer.Pod != "" && meet:
		seen.Identity, seen.Shared = 256+uint32(peer.Pod[1]-'0'), peer.Shared
	case peer.Shared:
		seen.Identity = lookup.Client
	}
	if seen.Protocol != compile.Others {
		seen.Port = uint16(p.Port)
	}
	set := c.sets[setOf{self.Pod, direction}]
	got := c.maps.Judge(set.guard, seen)
	var cause *rules.Cause
	switch {
	case got.Rank == lookup.Isolated:
		cause = set.set.Isolation
	case got.Rank > 0:
		cause = &set.set.Causes[got.Rank-1]
	}
	same := (cause == nil) == (want.Cause == nil) &&
		(cause == nil || cause.Key == want.Cause.Key && cause.RuleName == want.Cause.RuleName && cause.Tier == want.Cause.Tier)
	if got.Allowed != want.Allowed || got.Unknown || !same {
		t.Fatalf("direction %d of %+v: %+v by %+v, want %+v by %+v", direction, p, got, cause, want, want.Cause)
	}
}
