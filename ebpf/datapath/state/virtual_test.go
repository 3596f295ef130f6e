// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// numberedIP returns the n-th address of a range, in the order of numbers.
func numberedIP(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 96, byte(n >> 8), byte(n)}) }

func some(n int) *VirtualAddress { return &VirtualAddress{VNI: 6, IP: numberedIP(n)} }

// randomChanges returns random changes of the list in model, and applies them to model. Some
// changes are close together, and some are anywhere.
func randomChanges(random *rand.Rand, model map[int]*VirtualAddress, most int) []VirtualChange {
	numbers := map[int]bool{}
	first := random.IntN(most)
	for range 1 + random.IntN(100) {
		numbers[min(first+random.IntN(80), most)] = true
	}
	for range random.IntN(5) {
		numbers[random.IntN(most)] = true
	}
	grows := random.IntN(2) // a list gets long and short
	var changes []VirtualChange
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		change := VirtualChange{IP: numberedIP(n)}
		delete(model, n)
		if random.IntN(4) < 1+2*grows {
			change.Now = some(n)
			model[n] = change.Now
		}
		changes = append(changes, change)
	}
	return changes
}

// TestList_RandomChanges_EqualsItsElements compares lists after random changes with a map. It
// also checks which differences the comparison of the lists before and after finds.
func TestList_RandomChanges_EqualsItsElements(t *testing.T) {
	const most = 2000
	random := rand.New(rand.NewPCG(3, 4))
	var list VirtualAddresses
	model := map[int]*VirtualAddress{}
	for turn := range 3000 {
		was, before := list, maps.Clone(model)
		list = list.With(randomChanges(random, model, most)...)
		var want, gone, come []*VirtualAddress
		for n := range most + 1 {
			if a := model[n]; a != nil {
				want = append(want, a)
			}
			if list.Get(numberedIP(n)) != model[n] || was.Get(numberedIP(n)) != before[n] {
				t.Fatalf("turn %d: the element %d is not the one that was put, before or after the changes", turn, n)
			}
			if was, is := before[n], model[n]; was != is {
				gone, come = appendSome(gone, was), appendSome(come, is)
			}
		}
		if got := slices.Collect(list.All()); !slices.Equal(got, want) || list.Empty() != (len(want) == 0) {
			t.Fatalf("turn %d: the list has %d elements, want %d in the order of addresses", turn, len(got), len(want))
		}
		var found Changes
		found.compare(6, was, list)
		if !slices.Equal(found.Was, gone) || !slices.Equal(found.Is, come) || found.misplaced != nil {
			t.Fatalf("turn %d: the comparison finds %d gone and %d new elements, want %d and %d", turn, len(found.Was), len(found.Is), len(gone), len(come))
		}
		checkPieces(t, list, len(want))
	}
}

func appendSome(list []*VirtualAddress, a *VirtualAddress) []*VirtualAddress {
	if a == nil {
		return list
	}
	return append(list, a)
}

// checkPieces fails for pieces that are empty or too long, or too many.
func checkPieces(t *testing.T, list VirtualAddresses, elements int) {
	t.Helper()
	for _, piece := range list.pieces {
		if len(piece) == 0 || len(piece) > mostOfPiece {
			t.Fatalf("a piece has %d elements", len(piece))
		}
	}
	// Pieces that get short are joined, so that no list consists of single elements.
	if most := 2 + 8*elements/mostOfPiece; len(list.pieces) > most {
		t.Fatalf("%d elements are in %d pieces, want at most %d", elements, len(list.pieces), most)
	}
}

// TestList_OneChange_OtherPiecesShared changes, adds and deletes one element of 5,000.
func TestList_OneChange_OtherPiecesShared(t *testing.T) {
	var elements []*VirtualAddress
	for n := range 5000 {
		elements = append(elements, some(2*n))
	}
	list := VirtualAddressesOf(elements...)
	for name, change := range map[string]VirtualChange{
		"another element": {IP: numberedIP(5000), Now: some(5000)},
		"one more":        {IP: numberedIP(5001), Now: some(5001)},
		"one less":        {IP: numberedIP(5000)},
		"one at the end":  {IP: numberedIP(10001), Now: some(10001)},
		"a new first":     {IP: netip.MustParseAddr("10.95.0.0"), Now: &VirtualAddress{IP: netip.MustParseAddr("10.95.0.0")}},
	} {
		shared := 0
		for _, piece := range list.With(change).pieces {
			if slices.ContainsFunc(list.pieces, func(old []*VirtualAddress) bool { return sameList(old, piece) }) {
				shared++
			}
		}
		if shared != len(list.pieces)-1 {
			t.Errorf("%s: the lists share %d of %d pieces, want all but one", name, shared, len(list.pieces))
		}
	}
	if same := list.With(); !sameList(same.pieces, list.pieces) {
		t.Error("without a change there is a new list")
	}
}
