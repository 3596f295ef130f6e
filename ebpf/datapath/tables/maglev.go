// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// lookupSizes are the primes that lookup tables have as their lengths.
var lookupSizes = []int{251, 509, 1021, 4093, 16381, 65521}

// entriesPerBackend is the least ratio of a lookup table's length to the length of the list of
// backends, up to the longest table. One backend then gets at most 1/64 more of the flows than
// another.
const entriesPerBackend = 64

// lookupEntries returns the length of the lookup table of a service with so many
// backends: a prime, and 0 where there is nothing to choose. It takes 2 bytes of
// kernel memory per entry.
func lookupEntries(backends int) int {
	if backends < 2 {
		return 0
	}
	for _, size := range lookupSizes {
		if size >= backends*entriesPerBackend {
			return size
		}
	}
	return lookupSizes[len(lookupSizes)-1]
}

// lookupSlots fills a lookup table with slots of backends. Programs select the backend for the
// first packet of a flow by the table. The method is from Eisenbud et al., "Maglev: A Fast and
// Reliable Software Network Load Balancer", NSDI 2016, section 3.4, all weights equal: each
// backend has its own permutation of the entries, and in turns each takes the first free entry of
// its permutation. So two backends differ by one entry at most, and when one is removed nearly
// all entries of the others stay. Every node computes the same table. entries must be a prime
// above the number of backends, or 0.
func lookupSlots(backends []bpf.AliothBackend, entries int) []uint16 {
	if entries == 0 {
		return nil
	}
	const free = 0xffff
	table := make([]uint16, entries)
	for entry := range table {
		table[entry] = free
	}
	candidates := make([]candidate, len(backends))
	for slot, b := range backends {
		candidates[slot] = firstCandidate(b, uint64(entries))
	}
	for filled := 0; ; {
		for slot := range candidates {
			next := &candidates[slot]
			for table[next.entry] != free {
				next.entry = (next.entry + next.skip) % uint64(entries)
			}
			table[next.entry] = uint16(slot)
			if filled++; filled == entries {
				return table
			}
		}
	}
}

// candidate is the next entry in a backend's permutation, and the distance to the entry after it.
type candidate struct{ entry, skip uint64 }

func firstCandidate(b bpf.AliothBackend, entries uint64) candidate {
	name := binary.NativeEndian.AppendUint16(b.Ip.B[:], b.Port)
	return candidate{entry: hash(name, 'o') % entries, skip: hash(name, 's')%(entries-1) + 1}
}

// hash mixes the bits of FNV-1a, whose low bits differ little for short names that
// differ in one byte.
func hash(name []byte, salt byte) uint64 {
	h := fnv.New64a()
	h.Write(name)
	h.Write([]byte{salt})
	sum := h.Sum64()
	sum ^= sum >> 32
	sum *= 0xd6e8feb86659fd93
	return sum ^ sum>>32
}
