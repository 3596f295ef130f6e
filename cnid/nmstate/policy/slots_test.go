// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/store/rows/nmstate"
)

func TestRolloutLimit_NumberOrPercentage_AtLeastOne(t *testing.T) {
	for _, tc := range []struct {
		limit       nmstate.Unavailable
		nodes, want int
	}{
		{"", 10, 5},
		{"", 3, 2},
		{"", 1, 1},
		{"", 0, 1},
		{"0", 10, 1},
		{"3", 10, 3},
		{"3", 2, 3},
		{"0%", 10, 1},
		{"1%", 10, 1},
		{"34%", 3, 2},
		{"100%", 7, 7},
		{"50%", 4, 2},
	} {
		if got, err := Limit(tc.limit, tc.nodes); got != tc.want || err != nil {
			t.Errorf("%q of %d: got %d, %v, want %d", tc.limit, tc.nodes, got, err, tc.want)
		}
	}
	for _, bad := range []nmstate.Unavailable{"half", "-1", "5.5%", "%", "99999999999"} {
		if got, err := Limit(bad, 10); got != 5 || err == nil || !strings.Contains(err.Error(), "maxUnavailable") {
			t.Errorf("%q: got %d, %v, want the default and an error", bad, got, err)
		}
	}
}

func TestRollout_SlotsFree_NodesBegin(t *testing.T) {
	now := time.Unix(1000, 0)
	live, over := now.Add(time.Second), now
	nodes := []string{"d", "c", "b", "a"}
	for _, tc := range []struct {
		name       string
		limit      nmstate.Unavailable
		enactments []Enactment
		next       string
		changing   int
		aborted    bool
	}{
		{"none waits", "", nil, "", 0, false},
		{"half of them", "", []Enactment{{Node: "d", Generation: 2, Pending: true}, {Node: "b", Generation: 2, Pending: true}, {Node: "a", Generation: 2, Pending: true}}, "a b", 0, false},
		{"one changes", "2", []Enactment{{Node: "d", Generation: 2, Expires: live}, {Node: "b", Generation: 2, Pending: true}, {Node: "a", Generation: 2, Pending: true}}, "a", 1, false},
		{"as many change as may", "1", []Enactment{{Node: "d", Generation: 2, Expires: live}, {Node: "a", Generation: 2, Pending: true}}, "", 1, false},
		{"a slot has expired", "1", []Enactment{{Node: "d", Generation: 2, Expires: over}, {Node: "a", Generation: 2, Pending: true}}, "a", 0, false},
		{"its own slot has expired", "1", []Enactment{{Node: "a", Generation: 2, Pending: true, Expires: over}}, "a", 0, false},
		{"a slot of an older generation", "1", []Enactment{{Node: "d", Generation: 1, Expires: live}, {Node: "a", Generation: 2, Pending: true}}, "", 1, false},
		{"a slot of a node that is no longer selected", "1", []Enactment{{Node: "z", Generation: 2, Expires: live}, {Node: "a", Generation: 2, Pending: true}}, "", 1, false},
		{"a node with a slot that still says that it waits", "2", []Enactment{{Node: "a", Generation: 2, Pending: true, Expires: live}, {Node: "b", Generation: 2, Pending: true}}, "b", 1, false},
		{"one that is not selected waits", "2", []Enactment{{Node: "z", Generation: 2, Pending: true}}, "", 0, false},
		{"one waits for an older generation", "2", []Enactment{{Node: "a", Generation: 1, Pending: true}}, "", 0, false},
		{"some failed", "2", []Enactment{{Node: "d", Generation: 2, Failed: true}, {Node: "a", Generation: 2, Pending: true}}, "a", 0, false},
		{"as many failed as may change", "1", []Enactment{{Node: "d", Generation: 2, Failed: true}, {Node: "a", Generation: 2, Pending: true}}, "a", 0, false},
		{"one more failed", "1", []Enactment{{Node: "d", Generation: 2, Failed: true}, {Node: "c", Generation: 2, Failed: true}, {Node: "a", Generation: 2, Pending: true}}, "", 0, true},
		{"as many change as may fail", "2", []Enactment{
			{Node: "d", Generation: 2, Failed: true},
			{Node: "c", Generation: 2, Failed: true},
			{Node: "b", Generation: 2, Expires: live},
			{Node: "a", Generation: 2, Pending: true},
		}, "", 1, false},
		{"one is down", "1", []Enactment{{Node: "d", Generation: 1, Down: true}, {Node: "a", Generation: 2, Pending: true}}, "", 0, false},
		{"one is down with its slot", "2", []Enactment{{Node: "d", Generation: 2, Down: true, Expires: live}, {Node: "a", Generation: 2, Pending: true}}, "a", 1, false},
		{"too many failed, of an older generation", "1", []Enactment{{Node: "d", Generation: 1, Failed: true}, {Node: "a", Generation: 2, Pending: true}}, "a", 0, false},
		{"one failed that is not selected", "1", []Enactment{{Node: "z", Generation: 2, Failed: true}, {Node: "a", Generation: 2, Pending: true}}, "a", 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := NextSlots(Queue{Unavailable: tc.limit, Generation: 2, Nodes: nodes, Enactments: tc.enactments, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(r.Next, " "); got != tc.next || r.Changing != tc.changing || r.Aborted != tc.aborted {
				t.Errorf("got %q, %d change, aborted %v; want %q, %d, %v", got, r.Changing, r.Aborted, tc.next, tc.changing, tc.aborted)
			}
		})
	}
}

func TestRollout_SeveralNodes_ServedInTurn(t *testing.T) {
	nodes := []string{"a", "c", "b"}
	var waiting []Enactment
	for _, node := range nodes {
		waiting = append(waiting, Enactment{Node: node, Pending: true})
	}
	for last, want := range map[string]string{"": "a b", "a": "b c", "aa": "b c", "b": "c a", "c": "a b", "z": "a b"} {
		r, err := NextSlots(Queue{Unavailable: "2", Nodes: nodes, Last: last, Enactments: waiting})
		if got := strings.Join(r.Next, " "); err != nil || got != want {
			t.Errorf("after %q: got %q, %v, want %q", last, got, err, want)
		}
	}
}

// TestRollout_Random_EndsWithinLimit although nodes vanish with their slots.
func TestRollout_Random_EndsWithinLimit(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		var nodes []string
		states := map[string]*Enactment{}
		for i := range 1 + r.IntN(12) {
			node := "n" + strconv.Itoa(i)
			nodes = append(nodes, node)
			states[node] = &Enactment{Node: node, Generation: 1, Pending: true}
		}
		limit := nmstate.Unavailable(strconv.Itoa(r.IntN(120)) + "%")
		bound, err := Limit(limit, len(nodes))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(0, 0)
		for step := 0; ; step++ {
			if step > 1000 {
				t.Fatalf("seed %d: it does not end", seed)
			}
			now = now.Add(time.Second)
			var all []Enactment
			waiting, live := 0, 0
			for _, node := range nodes {
				e := states[node]
				if e.lives(now) && r.IntN(3) == 0 { // done; others vanish, until their slots expire
					e.Pending, e.Expires = false, time.Time{}
				}
				if e.Pending {
					waiting++
				}
				if e.lives(now) {
					live++
				}
				all = append(all, *e)
			}
			if live > bound {
				t.Fatalf("seed %d: %d of at most %d change", seed, live, bound)
			}
			if waiting == 0 {
				break
			}
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			rollout, err := NextSlots(Queue{Unavailable: limit, Generation: 1, Nodes: nodes, Enactments: all, Now: now})
			if err != nil {
				t.Fatal(rollout, err)
			}
			if live == 0 && len(rollout.Next) == 0 {
				t.Fatalf("seed %d: nodes wait, and none begins", seed)
			}
			for _, node := range rollout.Next {
				states[node].Expires = now.Add(5 * time.Second)
			}
		}
	}
}
