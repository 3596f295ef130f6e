// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyplan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/cnid/forward/plan/policyplan"
	"github.com/alioth-net/alioth/test/soak"
)

// TestPlan_RandomEvents_LikeFullPlan compares a Planner after each event with a Planner that gets
// the present objects at once. Their sets are equal but for the numbers.
func TestPlan_RandomEvents_LikeFullPlan(t *testing.T) {
	seed, count := soak.Worlds(t, 10_000, 200)
	for i := range uint64(count) {
		t.Run(soak.World(seed+i), func(t *testing.T) {
			m := maker{rand.New(rand.NewPCG(seed+i, 165))}
			p, present := policyplan.New(policyplan.Quota), map[string]event{}
			before := p.Plan()
			for range 60 {
				e := m.event()
				e.apply(p)
				present[e.key] = e
				now := p.Plan()
				compareNumbers(t, before, now)
				compareFull(t, present, now)
				if t.Failed() {
					t.Fatalf("after %s", e.key)
				}
				before = now
			}
		})
	}
}

// compareFull plans the objects from nothing, in any order. An interface whose identity is gone keeps
// its sets, so there may be more of them.
func compareFull(t *testing.T, present map[string]event, now policyplan.Plan) {
	t.Helper()
	full := policyplan.New(policyplan.Quota)
	for _, e := range present {
		e.apply(full)
	}
	want := full.Plan()
	if !slices.Equal(want.Shared, now.Shared) {
		t.Errorf("the shared identities are %v, want %v", now.Shared, want.Shared)
	}
	for vni, part := range want.Parts {
		is := now.Parts[vni]
		if !reflect.DeepEqual(is.Known, part.Known) || !maps.Equal(is.Addresses, part.Addresses) {
			t.Errorf("VNI %d knows %v and %v, want %v and %v", vni, is.Known, is.Addresses, part.Known, part.Addresses)
		}
		if delayed := len(is.Delays) > 0; !delayed && (len(is.Sets) != len(part.Sets) || len(is.Lists) != len(part.Lists)) {
			t.Errorf("VNI %d has %d sets and %d lists, want %d and %d", vni, len(is.Sets), len(is.Lists), len(part.Sets), len(part.Lists))
		}
		for ifindex, guard := range part.Guards {
			if got, want := guardText(is, is.Guards[ifindex]), guardText(part, guard); got != want {
				t.Errorf("interface %d has\n%s\nwant\n%s", ifindex, got, want)
			}
		}
	}
}

// guardText describes the rows behind a guard, without numbers of sets and lists.
func guardText(part *policyplan.Part, guard policyplan.Guard) (text string) {
	for _, guarded := range append(guard.Enforced[:], guard.Rehearsed[:]...) {
		text += fmt.Sprintf("isolated: %t\n", guarded.Isolated)
		for _, s := range part.Sets {
			if s.Number != guarded.Set {
				continue
			}
			for _, peer := range s.Peers {
				text += fmt.Sprintln(peer.Shared, peer.Identity, listOf(part, peer.List))
			}
			for _, net := range s.Nets {
				text += fmt.Sprintln(net.Prefix, listOf(part, net.List))
			}
			text += fmt.Sprintln(s.Causes, s.Isolation)
		}
	}
	return text
}

func listOf(part *policyplan.Part, number uint32) any {
	for _, one := range part.Lists {
		if one.Number == number {
			return one.Ports
		}
	}
	return number
}

// compareNumbers compares the rows of sets before and after an event: the rows of a number that is
// there before and after differ only by peers that are new or gone.
func compareNumbers(t *testing.T, before, now policyplan.Plan) {
	t.Helper()
	for vni, part := range now.Parts {
		older := before.Parts[vni]
		if older == nil {
			continue
		}
		known := append(peersOf(before, older), peersOf(now, part)...)
		for _, s := range part.Sets {
			for _, was := range older.Sets {
				if was.Number != s.Number {
					continue
				}
				if !reflect.DeepEqual(was.Nets, s.Nets) || !reflect.DeepEqual(was.Causes, s.Causes) {
					t.Errorf("set %d has other ranges or rules", s.Number)
				}
				comparePeers(t, was, s, known)
			}
		}
		for _, one := range part.Lists {
			if was, ok := listOf(older, one.Number).(uint32); !ok && !reflect.DeepEqual(listOf(older, one.Number), any(one.Ports)) {
				t.Errorf("list %d has other rows", was)
			}
		}
	}
}

// peersOf returns the known peers of a VPC.
func peersOf(plan policyplan.Plan, part *policyplan.Part) (all []policyplan.Peer) {
	for _, number := range part.Known {
		all = append(all, policyplan.Peer{Identity: number})
	}
	for _, number := range plan.Shared {
		all = append(all, policyplan.Peer{Shared: true, Identity: number})
	}
	return all
}

// comparePeers compares the rows of peers that known has twice.
func comparePeers(t *testing.T, was, is *policyplan.Set, known []policyplan.Peer) {
	t.Helper()
	row := func(s *policyplan.Set, of policyplan.Peer) (list uint32) {
		for _, one := range s.Peers {
			if one.Shared == of.Shared && one.Identity == of.Identity {
				list = one.List
			}
		}
		return list
	}
	times := map[policyplan.Peer]int{}
	for _, one := range known {
		if times[one]++; times[one] == 2 && row(was, one) != row(is, one) {
			t.Errorf("set %d has list %d for %+v, and had %d", is.Number, row(is, one), one, row(was, one))
		}
	}
}

// TestPlan_Unchanged_KeepsPointers: an event that changes nothing leaves all parts.
func TestPlan_Unchanged_KeepsPointers(t *testing.T) {
	m := maker{rand.New(rand.NewPCG(1, 1))}
	p, present := policyplan.New(policyplan.Quota), map[string]event{}
	for range 300 {
		e := m.event()
		e.apply(p)
		present[e.key] = e
	}
	before := p.Plan()
	for _, e := range present {
		e.apply(p)
	}
	for vni, part := range p.Plan().Parts {
		if part != before.Parts[vni] {
			t.Errorf("VNI %d has another part", vni)
		}
	}
	ip := netip.MustParseAddr("192.0.2.1")
	p.PutAddress("red", ip, 256)
	if now := p.Plan().Parts[1]; now.Addresses[ip] != 256 || before.Parts[1].Addresses[ip] != 0 {
		t.Error("a new address is not in the new part alone")
	}
}
