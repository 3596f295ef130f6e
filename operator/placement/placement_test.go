// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// world returns candidates of as many nodes as each zone has.
func world(sizes ...int) []Candidate {
	var all []Candidate
	for zone, size := range sizes {
		for node := range size {
			all = append(all, Candidate{Node: fmt.Sprintf("node-%d-%d", zone, node), Zone: fmt.Sprintf("zone-%d", zone)})
		}
	}
	return all
}

// perZone counts the members of each zone.
func perZone(candidates []Candidate, members []string) map[string]int {
	count := map[string]int{}
	for _, c := range candidates {
		if slices.Contains(members, c.Node) {
			count[c.Zone]++
		}
	}
	return count
}

func TestMembers_Zones_SpreadOverThem(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		sizes []int
		want  []int // sorted numbers of the zones that have members
	}{
		{"none are wanted", 0, []int{3, 3}, nil},
		{"a negative number", -1, []int{3}, nil},
		{"no candidates", 3, nil, nil},
		{"one zone", 2, []int{5}, []int{2}},
		{"as many as zones", 3, []int{5, 5, 5}, []int{1, 1, 1}},
		{"fewer than zones", 2, []int{5, 5, 5}, []int{1, 1}},
		{"one more than zones", 4, []int{5, 5, 5}, []int{1, 1, 2}},
		{"a small zone", 5, []int{1, 9}, []int{1, 4}},
		{"more than there are", 9, []int{1, 2}, []int{1, 2}},
	} {
		for key := range 50 {
			candidates := world(c.sizes...)
			var got []int
			for _, count := range perZone(candidates, Members(fmt.Sprint(key), c.n, candidates)) {
				got = append(got, count)
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s, key %d: members by zone (-want +got):\n%s", c.name, key, diff)
			}
		}
	}
}

// TestMembers_PinnedInput_SameInEachRelease pins a choice: operators of two releases that choose
// otherwise would move all roles at each change of the leader.
func TestMembers_PinnedInput_SameInEachRelease(t *testing.T) {
	got := Members("5f1c4d2e-8a0b-4c39-9d7e-2b6a1f0c3e58", 4, world(4, 4, 4))
	if diff := cmp.Diff([]string{"node-0-1", "node-1-0", "node-1-2", "node-2-0"}, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}

// TestMembers_NodeAdded_OnlyItsShareMoves adds the last node of a zone, for many keys.
func TestMembers_NodeAdded_OnlyItsShareMoves(t *testing.T) {
	const keys, n = 3000, 3
	after := world(20, 20, 20)
	before := after[:len(after)-1]
	moved := 0
	for key := range keys {
		if !slices.Equal(Members(fmt.Sprint(key), n, before), Members(fmt.Sprint(key), n, after)) {
			moved++
		}
	}
	// One member of 20 candidates in its zone: 150 of the keys, standard deviation 12.
	if share := keys / 20; moved < share-60 || moved > share+60 {
		t.Errorf("an added node changes the members of %d of %d keys, want about %d", moved, keys, share)
	}
}

func TestMembers_ManyKeys_EqualShares(t *testing.T) {
	const keys, n = 6000, 3
	candidates := world(10, 10, 10)
	count := map[string]int{}
	for key := range keys {
		for _, node := range Members(fmt.Sprint(key), n, candidates) {
			count[node]++
		}
	}
	// Standard deviation 23.
	for _, c := range candidates {
		if share := keys * n / len(candidates); count[c.Node] < share-120 || count[c.Node] > share+120 {
			t.Errorf("%s has %d roles, want about %d", c.Node, count[c.Node], share)
		}
	}
}

// FuzzMembers checks all that Members promises, for random zones and numbers.
func FuzzMembers(f *testing.F) {
	f.Add("a", 3, []byte{0, 0, 1, 1, 2, 2}, uint64(1))
	f.Add("", 64, []byte{}, uint64(2))
	f.Add("key", 5, []byte{0, 1, 1, 1, 1, 1, 1}, uint64(3))
	f.Fuzz(func(t *testing.T, key string, n int, zones []byte, seed uint64) {
		n, zones = min(n, 100), zones[:min(len(zones), 200)]
		var candidates []Candidate
		for i, zone := range zones {
			candidates = append(candidates, Candidate{fmt.Sprintf("n%d", i), fmt.Sprint(zone % 7)})
		}
		members := Members(key, n, candidates)
		if want := max(0, min(n, len(candidates))); len(members) != want || !slices.IsSorted(members) || len(slices.Compact(slices.Clone(members))) != want {
			t.Fatalf("%v are not %d different nodes in order", members, want)
		}
		fair(t, candidates, members)
		shuffled := slices.Clone(candidates)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := Members(key, n, shuffled); !slices.Equal(members, again) {
			t.Errorf("in another order the members are %v, not %v", again, members)
		}
		if more := Members(key, n+1, candidates); len(without(members, more)) > 0 {
			t.Errorf("of %v not all are among one more: %v", members, more)
		}
		for i, gone := range candidates {
			fewer := Members(key, n, slices.Delete(slices.Clone(candidates), i, i+1))
			stable(t, members, fewer, gone.Node)
		}
	})
}

// fair fails the test if a zone with a candidate to spare has two members fewer than another.
func fair(t *testing.T, candidates []Candidate, members []string) {
	t.Helper()
	size, count := map[string]int{}, perZone(candidates, members)
	for _, c := range candidates {
		size[c.Zone]++
	}
	for a := range size {
		for b := range size {
			if count[a] < size[a] && count[a]+1 < count[b] {
				t.Errorf("zone %s with %d candidates has %d members, and zone %s %d", a, size[a], count[a], b, count[b])
			}
		}
	}
}

// stable fails the test if the loss of a node changes more than its own part.
func stable(t *testing.T, before, after []string, gone string) {
	t.Helper()
	lost, won := without(before, after), without(after, before)
	if slices.Contains(before, gone) && (!slices.Equal(lost, []string{gone}) || len(won) > 1) || !slices.Contains(before, gone) && len(lost)+len(won) > 0 {
		t.Errorf("without %s members change from %v to %v", gone, before, after)
	}
}

// without returns the elements of a list that are not in another.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(other, one) })
}

func BenchmarkMembersOfFiveThousandNodes(b *testing.B) {
	candidates := world(1700, 1700, 1600)
	for b.Loop() {
		Members("5f1c4d2e-8a0b-4c39-9d7e-2b6a1f0c3e58", 3, candidates)
	}
}
