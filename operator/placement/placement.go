// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement chooses the nodes that play a role, by rendezvous hashing with a
// spread over zones (docs/design/145). It is pure.
package placement

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// Candidate is a node that may play a role: it is ready, and its labels make it eligible.
type Candidate struct {
	// Node is the name of the Node object, which is unique among candidates.
	Node string
	// Zone is the value of its label topology.kubernetes.io/zone. Nodes without the label
	// have "", and are a zone together.
	Zone string
}

// Members returns the nodes that play the role of a key, in the order of their names: n of
// the candidates, or all if there are fewer. n below 1 means none. The order of the
// candidates has no meaning, and they are not changed.
//
// The key should be the UID of the Subnet or VPC: if tenants chose it, they could choose
// the nodes.
//
// The numbers of members in two zones differ by one at most, unless one of the zones has
// no further candidate. The members for n are among those for n+1. A candidate that is
// added or removed replaces one member at most; in a zone of s candidates with m members
// an added one becomes a member with a probability of m/(s+1).
func Members(key string, n int, candidates []Candidate) []string {
	zones := ranked(key, candidates)
	members := make([]string, 0, max(0, min(n, len(candidates))))
	for place := 0; len(members) < cap(members); place++ {
		for _, zone := range zones {
			if place < len(zone.nodes) && len(members) < cap(members) {
				members = append(members, zone.nodes[place].name)
			}
		}
	}
	slices.Sort(members)
	return members
}

// item is a node or zone with its rank for a key; the highest is first.
type item struct {
	name string
	rank uint64
}

// zone has its nodes in the order of their ranks.
type zone struct {
	item
	nodes []item
}

// ranked returns the zones of the candidates, and in each its candidates, in the order of
// their ranks.
func ranked(key string, candidates []Candidate) []*zone {
	ofNode, ofZone := hash("node "+key), hash("zone "+key)
	byName := map[string]*zone{}
	var zones []*zone
	for _, c := range candidates {
		z := byName[c.Zone]
		if z == nil {
			z = &zone{item: rank(ofZone, c.Zone)}
			byName[c.Zone] = z
			zones = append(zones, z)
		}
		z.nodes = append(z.nodes, rank(ofNode, c.Node))
	}
	slices.SortFunc(zones, func(a, b *zone) int { return first(a.item, b.item) })
	for _, z := range zones {
		slices.SortFunc(z.nodes, first)
	}
	return zones
}

// rank returns the rank of a name for a key with the hash seed.
func rank(seed uint64, name string) item { return item{name, mix(seed ^ mix(hash(name)))} }

// first orders by rank, the highest first. Equal ranks are practically impossible, and are ordered
// by name, so that the result never depends on the order of candidates.
func first(a, b item) int { return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.name, b.name)) }

// hash is FNV-1a with 64 bits. Every process and release has to compute the same.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // it never fails
	return h.Sum64()
}

// mix distributes the bits of FNV-1a, whose upper ones hardly depend on the last bytes of
// a name. It is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, fig. 17),
// a bijection of 64 bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
