// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package identities

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/alioth-net/alioth/store/rules/policy/identity"
)

// object is a PolicyIdentity in the modelled API.
type object struct {
	Identity
	version int
}

// endpoint is an Address in the modelled API.
type endpoint struct {
	Address
	// meaning is the canonical form of the set that the number stood for as the operator gave it.
	meaning string
	version int
}

// state is the content of the API at one time.
type state struct {
	at         time.Time
	identities map[uint32]object
	addresses  map[string]endpoint
	pods       map[string]map[string]string // labels by UID
	selected   map[string]bool              // keys
	call       int
	replies    [nodes]int
}

func (s *state) clone() *state {
	c := *s
	c.identities, c.addresses = maps.Clone(s.identities), maps.Clone(s.addresses)
	c.pods, c.selected = maps.Clone(s.pods), maps.Clone(s.selected)
	return &c
}

// api is a modelled API with its complete history. A view of it is an index of states.
type api struct {
	t        *testing.T
	states   []*state
	restored int // the first state after the last restored backup
	uids     int
	// views are the views of the nodes.
	views [nodes]int
}

const nodes = 2

func newAPI(t *testing.T, now time.Time) *api {
	return &api{t: t, states: []*state{{
		at: now, identities: map[uint32]object{}, addresses: map[string]endpoint{}, pods: map[string]map[string]string{}, selected: map[string]bool{"app": true},
	}}}
}

func (a *api) last() int      { return len(a.states) - 1 }
func (a *api) latest() *state { return a.states[a.last()] }

func (a *api) uid() string {
	a.uids++
	return fmt.Sprint("uid", a.uids)
}

// write adds a state, and checks the rules.
func (a *api) write(now time.Time, change func(s *state, version int)) {
	next := a.latest().clone()
	next.at = now
	change(next, len(a.states))
	a.states = append(a.states, next)
	a.check()
}

// create adds an identity unless its name exists.
func (a *api) create(now time.Time, one Identity) (version int, created bool) {
	if _, exists := a.latest().identities[one.Number]; exists {
		return 0, false
	}
	one.UID = a.uid()
	a.checkRest(&one)
	a.write(now, func(s *state, v int) { s.identities[one.Number], version = object{one, v}, v })
	return version, true
}

// checkRest fails the test if a node knows the number of a new identity for another set.
func (a *api) checkRest(one *Identity) {
	a.t.Helper()
	form := one.Set.Canonical()
	for node, view := range a.views {
		if view < a.restored {
			continue
		}
		s := a.states[view]
		if old, ok := s.identities[one.Number]; ok && !old.Deleting && old.Set.Canonical() != form {
			a.t.Fatalf("number %d is used again, and node %d has it for %v", one.Number, node, old.Set.Labels)
		}
		for name, address := range s.addresses {
			if address.Identity == one.Number && address.meaning != form {
				a.t.Fatalf("number %d is used again, and node %d has it at %s", one.Number, node, name)
			}
		}
	}
}

// setIdentity changes an identity by its UID, or removes it.
func (a *api) setIdentity(now time.Time, old Identity, remove bool) (version int, done bool) {
	is, ok := a.latest().identities[old.Number]
	if !ok || is.UID != old.UID || remove && !is.Deleting {
		return 0, false
	}
	a.write(now, func(s *state, v int) {
		if is.Deleting, is.version, version = true, v, v; remove {
			delete(s.identities, old.Number)
		} else {
			s.identities[old.Number] = is
		}
	})
	return version, true
}

// patch changes the identity of an Address that has the UID and the identity of before.
func (a *api) patch(now time.Time, p Patch, meaning string) (version int, done bool) {
	is, ok := a.latest().addresses[p.Address.Name]
	if !ok || is.UID != p.Address.UID || is.Identity != p.From {
		return 0, false
	}
	a.write(now, func(s *state, v int) {
		is.Identity, is.meaning, is.version, version = p.To, meaning, v, v
		s.addresses[p.Address.Name] = is
	})
	return version, true
}

// address creates an Address unless its name exists.
func (a *api) address(now time.Time, one Address, meaning string) (version int, done bool) {
	if _, exists := a.latest().addresses[one.Name]; exists {
		return 0, false
	}
	one.UID = a.uid()
	a.write(now, func(s *state, v int) { s.addresses[one.Name], version = endpoint{one, meaning, v}, v })
	return version, true
}

// restore brings back an old state. Nodes keep their views until they read the API again.
func (a *api) restore(now time.Time, old int) {
	back := a.states[old].clone()
	back.at = now
	a.states = append(a.states, back)
	a.restored = a.last()
}

// check fails the test if a number stands for two sets: in the API, or at one node as another node
// sends it. Nodes that have not read the API since a restored backup do not count.
func (a *api) check() {
	a.t.Helper()
	a.checkPair(a.latest(), a.latest(), true, "the API")
	for x, from := range a.views {
		for y, to := range a.views {
			if from >= a.restored && to >= a.restored {
				a.checkPair(a.states[from], a.states[to], false, fmt.Sprintf("node %d by node %d", x, y))
			}
		}
	}
}

func (a *api) checkPair(sender, receiver *state, resting bool, where string) {
	a.t.Helper()
	for name, address := range sender.addresses {
		one, ok := receiver.identities[address.Identity]
		if ok && (resting || !one.Deleting) && one.Set.Canonical() != address.meaning {
			a.t.Fatalf("%s: number %d of %s stands for %v and %q", where, address.Identity, name, one.Set.Labels, address.meaning)
		}
	}
}

// described reports whether a set describes a pod to policies that select by some keys.
func described(set *identity.Set, labels map[string]string, selected map[string]bool) bool {
	known := map[string]bool{}
	for _, key := range set.Omitted {
		if _, ok := labels[key]; !ok || selected[key] {
			return false
		}
		known[key] = true
	}
	for key, value := range set.Labels {
		if is, ok := labels[key]; !ok || is != value || known[key] {
			return false
		}
		known[key] = true
	}
	return len(known) == len(labels)
}
