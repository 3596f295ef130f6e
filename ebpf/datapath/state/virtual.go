// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"iter"
	"net/netip"
	"slices"
)

// VirtualAddress is one address of a VPC, or of a network outside, with the services at its
// ports. It has at least one service.
type VirtualAddress struct {
	VNI      uint32
	IP       netip.Addr
	Services []Service
}

// Compare orders virtual addresses by their address.
func (a *VirtualAddress) Compare(ip netip.Addr) int { return a.IP.Compare(ip) }

// HasAffinity reports whether the service at any port has affinity.
func (a *VirtualAddress) HasAffinity() bool {
	return slices.ContainsFunc(a.Services, func(s Service) bool { return s.Affinity > 0 })
}

// VirtualAddresses are virtual addresses in ascending order, each once. They are in pieces
// that never change. The list after a change has new pieces in the places of the change, and
// shares all others with the list before. So a change copies few elements of a long list, and
// a comparison of the two lists skips most of them.
type VirtualAddresses struct{ pieces [][]*VirtualAddress }

// mostOfPiece is the number of elements of the longest piece. A change copies one piece and
// the list of pieces: with 5,000 elements both are about as long.
const mostOfPiece = 64

// VirtualAddressesOf returns a list with elements in this order.
func VirtualAddressesOf(list ...*VirtualAddress) VirtualAddresses {
	return VirtualAddresses{pieces: inPieces(nil, slices.Clone(list))}
}

// inPieces appends elements in pieces of the same length.
func inPieces(pieces [][]*VirtualAddress, list []*VirtualAddress) [][]*VirtualAddress {
	if len(list) == 0 {
		return pieces
	}
	number := (len(list) + mostOfPiece - 1) / mostOfPiece
	return slices.AppendSeq(pieces, slices.Chunk(list, (len(list)+number-1)/number))
}

// Empty reports whether the list has no elements.
func (l VirtualAddresses) Empty() bool { return len(l.pieces) == 0 }

// All returns the elements in their order.
func (l VirtualAddresses) All() iter.Seq[*VirtualAddress] {
	return func(yield func(*VirtualAddress) bool) {
		for _, piece := range l.pieces {
			for _, a := range piece {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// Get returns the element with an address, nil without one.
func (l VirtualAddresses) Get(ip netip.Addr) *VirtualAddress {
	at, found := slices.BinarySearchFunc(
		l.pieces,
		ip,
		func(piece []*VirtualAddress, ip netip.Addr) int { return piece[0].Compare(ip) },
	)
	switch {
	case found:
		return l.pieces[at][0]
	case at == 0:
		return nil
	}
	piece := l.pieces[at-1]
	if at, found = slices.BinarySearchFunc(piece, ip, (*VirtualAddress).Compare); !found {
		return nil
	}
	return piece[at]
}

// VirtualChange is the new element of a list under an address.
type VirtualChange struct {
	IP netip.Addr
	// Now is the element with the address, nil without one.
	Now *VirtualAddress
}

// With returns the list after changes, which are in ascending order, each address once.
func (l VirtualAddresses) With(changes ...VirtualChange) VirtualAddresses {
	if len(changes) == 0 {
		return l
	}
	old := l.pieces
	if len(old) == 0 {
		old = [][]*VirtualAddress{nil}
	}
	pieces := make([][]*VirtualAddress, 0, len(old)+1)
	for i, piece := range old {
		here := len(changes)
		if i+1 < len(old) {
			here, _ = slices.BinarySearchFunc(
				changes,
				old[i+1][0],
				func(c VirtualChange, next *VirtualAddress) int { return c.IP.Compare(next.IP) },
			)
		}
		if here == 0 {
			pieces = append(pieces, piece)
			continue
		}
		changed := merge(piece, changes[:here])
		changes = changes[here:]
		// Pieces that get short are joined.
		if last := len(pieces) - 1; last >= 0 && len(pieces[last])+len(changed) <= mostOfPiece/2 {
			changed, pieces = slices.Concat(pieces[last], changed), pieces[:last]
		}
		pieces = inPieces(pieces, changed)
	}
	return VirtualAddresses{pieces: pieces}
}

// merge returns a copy of a piece with changes.
func merge(piece []*VirtualAddress, changes []VirtualChange) []*VirtualAddress {
	merged := make([]*VirtualAddress, 0, len(piece)+len(changes))
	for _, c := range changes {
		at, found := slices.BinarySearchFunc(piece, c.IP, (*VirtualAddress).Compare)
		merged, piece = append(merged, piece[:at]...), piece[at:]
		if found {
			piece = piece[1:]
		}
		if c.Now != nil {
			merged = append(merged, c.Now)
		}
	}
	return append(merged, piece...)
}

// hasAffinity reports whether any element has affinity.
func (l VirtualAddresses) hasAffinity() bool {
	for a := range l.All() {
		if a.HasAffinity() {
			return true
		}
	}
	return false
}

// cursor is a place in a list: the rest of a piece, and the pieces after it.
type cursor struct {
	piece  []*VirtualAddress
	pieces [][]*VirtualAddress
}

// head returns the element at the place; nil: the end.
func (c *cursor) head() *VirtualAddress {
	for len(c.piece) == 0 && len(c.pieces) > 0 {
		c.piece, c.pieces = c.pieces[0], c.pieces[1:]
	}
	if len(c.piece) == 0 {
		return nil
	}
	return c.piece[0]
}

// pass moves the place behind its element.
func (c *cursor) pass() { c.piece = c.piece[1:] }

// passCommon moves two cursors, which are at the same element, behind this element, or behind
// the rest of the piece if both lists share it. It returns the last element that it passed.
func passCommon(a, b *cursor) *VirtualAddress {
	n := 1
	if sameList(a.piece, b.piece) {
		n = len(a.piece)
	}
	last := a.piece[n-1]
	a.piece, b.piece = a.piece[n:], b.piece[n:]
	return last
}
