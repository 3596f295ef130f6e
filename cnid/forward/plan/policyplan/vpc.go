// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyplan

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy/compile"
)

// vpc has the sets of one VPC.
type vpc struct {
	vni        uint32
	interfaces map[int]uint32
	addresses  addresses
	peers      map[peerKey]*peer
	// changed are the peers that have changed since the last plan. known are the peers that have
	// rows: a peer that exceeds the quota stays unknown.
	changed, known map[peerKey]bool
	// wanted are the wishes of interfaces by identity, until they are stale.
	wanted map[uint32][]wish
	// sets are the sets of guards by key. current has the sets of guards; nil: not judged.
	sets    map[string]*set
	current map[guardKey]*set
	lists   lists
	lastSet uint32
	size    Size
	stale   bool
	delays  []Delay
	part    *Part
}

// guardKey is one set of a guard.
type guardKey struct {
	ifindex   int
	direction policy.Direction
	mode      mode
}

func newVPC() *vpc {
	return &vpc{
		interfaces: map[int]uint32{}, peers: map[peerKey]*peer{},
		changed: map[peerKey]bool{}, known: map[peerKey]bool{}, wanted: map[uint32][]wish{},
		sets: map[string]*set{}, current: map[guardKey]*set{}, lists: lists{byContent: map[string]*list{}}, stale: true,
	}
}

// put sets or removes a peer.
func (v *vpc) put(key peerKey, now *peer) {
	if v.peers[key] = now; now == nil {
		delete(v.peers, key)
	}
	v.changed[key], v.stale = true, true
	if !key.shared {
		v.forget(key.identity)
	}
}

// forget makes the wishes of an identity stale.
func (v *vpc) forget(number uint32) {
	delete(v.wanted, number)
	v.stale = true
}

// plan returns the rows.
func (v *vpc) plan(p *Planner) *Part {
	if !v.stale {
		return v.part
	}
	v.stale, v.delays = false, nil
	v.follow(p.quota)
	v.choose(p)
	now := v.output(p.quota)
	if v.part == nil || !reflect.DeepEqual(v.part, now) {
		v.part = now
	}
	return v.part
}

// follow gives the sets the rows of changed peers. Deleted peers make room for new ones.
func (v *vpc) follow(quota Size) {
	keys := slices.SortedFunc(maps.Keys(v.changed), peerKey.compare)
	v.changed = map[peerKey]bool{}
	for _, key := range keys {
		if v.peers[key] == nil && v.known[key] {
			v.remove(key)
		}
	}
	for _, s := range v.ordered() {
		v.renew(s, keys, quota)
	}
	for _, key := range keys {
		if v.peers[key] != nil && !v.known[key] {
			v.admit(key, quota)
		}
	}
}

// ordered returns the sets in the order of their numbers.
func (v *vpc) ordered() []*set {
	return slices.SortedFunc(maps.Values(v.sets), func(a, b *set) int { return cmp.Compare(a.number, b.number) })
}

// remove takes away the rows of a peer.
func (v *vpc) remove(key peerKey) {
	for _, s := range v.sets {
		v.setRow(s, key, compile.Row{})
	}
	if delete(v.known, key); !key.shared {
		v.size.Peers--
	}
}

// admit adds the rows of a new peer, unless they exceed the quota.
func (v *vpc) admit(key peerKey, quota Size) {
	if v.known[key] = true; !key.shared {
		v.size.Peers++
	}
	for _, s := range v.ordered() {
		v.setRow(s, key, s.row(key, v.peers[key]))
	}
	if !v.size.within(quota) {
		v.remove(key)
		v.changed[key] = true
	}
}

// renew replaces a set by one with another number if the row of a known peer has changed with the
// labels of its namespace.
func (v *vpc) renew(s *set, keys []peerKey, quota Size) {
	other := map[peerKey]compile.Row{}
	for _, key := range keys {
		if !v.known[key] {
			continue
		}
		now := s.row(key, v.peers[key])
		if now.List != s.rows[key].List {
			other[key] = now
			continue
		}
		v.setRow(s, key, now)
	}
	if s.behind = false; len(other) == 0 {
		return
	}
	next := &set{wish: s.wish, base: s.base, rows: maps.Clone(s.rows), guards: s.guards}
	for key, row := range other {
		if next.rows[key] = row; row.List == nil && row.Undecided == nil {
			delete(next.rows, key)
		}
	}
	v.discount(s)
	v.count(next)
	if !v.size.within(quota) {
		v.discount(next)
		v.count(s)
		s.behind = true
		for key := range other {
			v.changed[key] = true
		}
		return
	}
	v.sets[s.key] = v.numbered(next)
	for guard, one := range v.current {
		if one == s {
			v.current[guard] = next
		}
	}
}

// output returns the rows as they are now.
func (v *vpc) output(quota Size) *Part {
	part := &Part{
		VNI: v.vni, Guards: map[int]Guard{}, Addresses: v.addresses.output(quota.Addresses),
		Lists: v.lists.sweep(), Delays: v.delays,
	}
	for key := range v.known {
		if !key.shared {
			part.Known = append(part.Known, key.identity)
		}
	}
	slices.Sort(part.Known)
	for _, s := range v.ordered() {
		part.Sets = append(part.Sets, v.outputSet(s))
	}
	for ifindex := range v.interfaces {
		if guard, ok := v.guard(ifindex); ok {
			part.Guards[ifindex] = guard
		}
	}
	for key := range v.changed {
		if !v.known[key] {
			part.Unfit++
		}
	}
	part.Unfit += len(v.addresses.all) - len(part.Addresses)
	return part
}

// guard returns the guard of an interface, if it has all of its sets.
func (v *vpc) guard(ifindex int) (out Guard, ok bool) {
	for mode, by := range map[mode]*[2]Guarded{enforced: &out.Enforced, rehearsed: &out.Rehearsed} {
		for direction := range policy.Egress + 1 {
			s, ok := v.current[guardKey{ifindex, direction, mode}]
			if !ok {
				return Guard{}, false
			}
			if s != nil {
				by[direction] = Guarded{Set: s.number, Isolated: s.base.Isolation != nil}
			}
		}
	}
	return out, true
}
