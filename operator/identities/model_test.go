// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package identities

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/store/rules/policy/identity"
	"github.com/alioth-net/alioth/test/soak"
)

const (
	// latest is how late a request arrives at most, and stale the age of an operator's view. Their
	// sum is less than Life, which is the assumption of the package.
	latest, stale = 8 * time.Minute, time.Minute
	// numbersInModel is small, so that sets meet.
	numbersInModel = 7
	podsInModel    = 4
)

// few yields the numbers of a set among few.
func few(set *identity.Set) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for number := range set.Numbers() {
			if !yield(identity.First + number%numbersInModel) {
				return
			}
		}
	}
}

// operator is a replica. Its view is a state of the API, and its own writes since.
type operator struct {
	term       *Term
	view       int
	identities map[uint32]object   // own writes, with an empty UID for a removed one
	addresses  map[string]endpoint // own writes
	call       int
	covered    map[string]bool
	settled    bool
	taken      map[uint32]bool
}

// request is a write that has not arrived yet.
type request struct {
	at time.Time
	do func()
}

// world has two operators, nodes, pods, and requests on their way. One operator leads.
type world struct {
	*api
	*rand.Rand
	now       time.Time
	operators [2]*operator
	leader    int
	requests  []request
	calls     int
	born      int
	// calm is true at the end: no write is lost or late.
	calm bool
}

// TestPlan_RandomEvents_OneSetPerNumber plays random events: labels, policies and pods change,
// operators end between any two writes, requests arrive late or never, nodes read the API late,
// somebody deletes identities, and backups are restored. The api checks each state.
func TestPlan_RandomEvents_OneSetPerNumber(t *testing.T) {
	seed, count := soak.Worlds(t, 5_000, 150)
	for i := range uint64(count) {
		t.Run(soak.World(seed+i), func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			w := &world{api: newAPI(t, now), Rand: rand.New(rand.NewPCG(seed+i, 165)), now: now}
			w.begin(0)
			for range 400 {
				w.event()
			}
			w.settle()
			w.checkEnd()
		})
	}
}

func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

// pick returns an element of a map, the same for the same seed.
func pick[K string | uint32, V any](w *world, of map[K]V) (key K, ok bool) {
	keys := slices.Sorted(maps.Keys(of))
	if len(keys) == 0 {
		return key, false
	}
	return keys[w.IntN(len(keys))], true
}

func (w *world) event() {
	switch n := w.IntN(100); {
	case n < 30:
		w.pass()
	case n < 35:
		w.claim()
	case n < 50:
		w.advance(time.Duration(w.IntN(3000)) * time.Millisecond)
	case n < 56:
		w.advance(time.Duration(w.IntN(12)) * time.Minute)
	case n < 70:
		w.read(w.IntN(nodes))
	case n < 76:
		w.lookAgain()
	case n < 80:
		w.begin(w.IntN(2)) // another replica leads, or the same one has ended and begins again
	case n < 81:
		w.restoreBackup()
	case n < 83:
		w.deleteByHand()
	default:
		w.people()
	}
}

// people change pods and policies, and daemons release Addresses of pods that are gone.
func (w *world) people() {
	s := w.latest()
	uid, ok := pick(w, s.pods)
	switch n := w.IntN(10); {
	case n < 2 && len(s.pods) < podsInModel:
		w.born++
		w.write(w.now, func(s *state, _ int) { s.pods[fmt.Sprint("pod", w.born)] = w.labels() })
	case n < 6 && ok:
		w.write(w.now, func(s *state, _ int) { s.pods[uid] = w.labels() })
	case n < 7 && ok:
		w.write(w.now, func(s *state, _ int) { delete(s.pods, uid) })
	case n < 9:
		if name, ok := pick(w, s.addresses); ok && (s.pods[s.addresses[name].Pod] == nil || w.chance(10)) {
			w.write(w.now, func(s *state, _ int) { delete(s.addresses, name) })
		}
	default:
		key := []string{"app", "tier"}[w.IntN(2)]
		w.write(w.now, func(s *state, _ int) { s.selected[key] = !s.selected[key] })
	}
}

func (w *world) labels() map[string]string {
	labels := map[string]string{"app": []string{"a", "b", "c"}[w.IntN(3)]}
	if w.chance(50) {
		labels["tier"] = []string{"x", "y"}[w.IntN(2)]
	}
	return labels
}

func (w *world) deleteByHand() {
	if number, ok := pick(w, w.latest().identities); ok {
		w.setIdentity(w.now, w.latest().identities[number].Identity, false)
	}
}

// begin begins a term of a replica. Its view may be a moment old.
func (w *world) begin(who int) {
	w.leader = who
	w.operators[who] = &operator{term: NewTerm()}
	w.operators[who].term.numbers = few
	w.forget(w.operators[who], w.oldest()+w.IntN(w.last()-w.oldest()+1))
}

// forget gives an operator a view that has its own writes.
func (w *world) forget(o *operator, view int) {
	o.view = max(o.view, view)
	maps.DeleteFunc(o.identities, func(_ uint32, one object) bool { return one.version <= o.view })
	maps.DeleteFunc(o.addresses, func(_ string, one endpoint) bool { return one.version <= o.view })
	if o.identities == nil {
		o.identities, o.addresses = map[uint32]object{}, map[string]endpoint{}
	}
	o.taken = map[uint32]bool{}
}

// oldest returns the oldest view that an operator may have: states are replaced when the next one is
// written.
func (w *world) oldest() int {
	view := w.restored
	for view < w.last() && w.now.Sub(w.states[view+1].at) > stale {
		view++
	}
	return view
}

// lookAgain brings the view of the leader forward.
func (w *world) lookAgain() {
	o := w.operators[w.leader]
	first := max(o.view, w.oldest())
	w.forget(o, first+w.IntN(w.last()-first+1))
}

// advance lets time pass. Requests arrive at their time.
func (w *world) advance(by time.Duration) {
	end := w.now.Add(by)
	slices.SortStableFunc(w.requests, func(a, b request) int { return a.at.Compare(b.at) })
	for len(w.requests) > 0 && !w.requests[0].at.After(end) {
		next := w.requests[0]
		w.requests = w.requests[1:]
		w.now = next.at
		next.do()
	}
	w.now = end
	o := w.operators[w.leader]
	w.forget(o, w.oldest())
}

// restoreBackup begins a new term: an outage ends each term, and all requests.
func (w *world) restoreBackup() {
	w.requests = nil
	w.restore(w.now, w.IntN(len(w.states)))
	w.check()
	w.begin(w.IntN(2))
}

// read lets a node read the API up to some state, and reply to the call that it finds there.
func (w *world) read(node int) {
	first := max(w.views[node], w.restored)
	w.views[node] = first + w.IntN(w.last()-first+1)
	if w.chance(40) || w.calm {
		w.views[node] = w.last()
	}
	w.check()
	call := w.states[w.views[node]].call
	w.write(w.now, func(s *state, _ int) { s.replies[node] = call })
}

// send makes a write now, late, or never.
func (w *world) send(write func()) {
	switch {
	case w.calm || w.chance(80):
		write()
	case w.chance(70):
		w.requests = append(w.requests, request{w.now.Add(time.Duration(w.Int64N(int64(latest)))), write})
	}
}
