// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func remote(vni uint32, addr, node string) Address {
	return Address{VNI: vni, IP: ip(addr), Kind: Remote, Node: ip(node), MAC: macR}
}

// sorted is the world's state in the order of a plan.
func (w *world) sorted() State {
	s := w.state()
	s.sort()
	return s
}

// expectHeld compares the maps with a state.
func expectHeld(t *testing.T, w *world, want State) {
	t.Helper()
	got, err := w.Snapshot()
	must(t, err)
	if d := cmp.Diff(compile(want, newTables()).addresses, compile(got, newTables()).addresses); d != "" {
		t.Errorf("addresses (-want +got):\n%s", d)
	}
}

func TestChangesOfRemoteAddressesTakeTheShortWay(t *testing.T) {
	w := newWorld(t)
	s := w.sorted()
	must(t, w.Apply(s))
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		a := remote(vniRed, fmt.Sprintf("10.0.1.%d", 100+random.IntN(20)), fmt.Sprintf("192.0.2.%d", 2+random.IntN(2)))
		at, found := slices.BinarySearchFunc(s.Addresses, a, compareAddresses)
		switch {
		case !found:
			s.Addresses = slices.Insert(s.Addresses, at, a)
		case random.IntN(2) == 0:
			s.Addresses = slices.Delete(slices.Clone(s.Addresses), at, at+1)
		default:
			s.Addresses[at] = a // in place: what was applied must not share it
		}
		if _, short := w.remoteChanges(s); !short {
			t.Fatalf("a change of %+v takes the long way", a)
		}
		must(t, w.Apply(s))
	}
	expectHeld(t, w, s)
	w.Recheck()
	must(t, w.Apply(s))
	if repaired := w.Repaired(); len(repaired) > 0 {
		t.Errorf("the maps were not what was noted: %v", repaired)
	}
}

func TestWhatElseChangesTakesTheLongWay(t *testing.T) {
	w := newWorld(t)
	base := w.sorted()
	must(t, w.Apply(base))
	more := func(a Address) func(*State) {
		return func(s *State) {
			s.Addresses = append(s.Addresses, a)
			s.sort()
		}
	}
	for name, c := range map[string]struct {
		change  func(*State)
		invalid bool
	}{
		"nothing sorted":         {func(s *State) { s.Addresses = append(s.Addresses, remote(vniRed, "10.0.1.2", "192.0.2.2")) }, false},
		"a gateway":              {more(Address{VNI: vniRed, IP: ip("10.0.1.254"), Kind: Gateway}), false},
		"an address given twice": {more(base.Addresses[0]), true},
		"of no VPC":              {more(remote(99, "10.0.1.100", "192.0.2.2")), true},
		"of no node":             {more(Address{VNI: vniRed, IP: ip("10.0.1.100"), Kind: Remote}), true},
		"IPv4 as IPv6":           {more(remote(vniRed, "::ffff:10.0.1.10", "192.0.2.2")), true},
		"a node besides": {func(s *State) {
			more(remote(vniRed, "10.0.1.100", "192.0.2.2"))(s)
			s.Nodes = append(slices.Clone(s.Nodes), ip("203.0.113.9"))
		}, false},
	} {
		s := base
		s.Addresses = slices.Clone(base.Addresses)
		c.change(&s)
		if _, short := w.remoteChanges(s); short {
			t.Errorf("%s: takes the short way", name)
		}
		if err := w.Apply(s); errors.Is(err, ErrInvalidState) != c.invalid {
			t.Errorf("%s: error %v, want an invalid state: %v", name, err, c.invalid)
		}
		must(t, w.Apply(base))
		expectHeld(t, w, base)
	}
}

func TestTheShortWayRestoresWhatWasChangedByHandWhenAsked(t *testing.T) {
	w := newWorld(t)
	s := w.sorted()
	must(t, w.Apply(s))
	key, _ := s.Addresses[0].row()
	must(t, w.objects.AliothAddresses.Delete(key))
	s.Addresses = append(slices.Clone(s.Addresses), remote(vniMain, "10.8.200.1", "192.0.2.2"))
	s.sort()
	w.Recheck()
	must(t, w.Apply(s))
	expectHeld(t, w, s)
	if len(w.Repaired()) != 1 {
		t.Error("the row that was deleted by hand counts as no repair")
	}
}
