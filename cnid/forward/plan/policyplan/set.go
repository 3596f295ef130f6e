// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyplan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy/compile"
)

// clients is the number of the clients of shared services.
const clients = 3

// peerKey is an identity of the VPC, or of the backends of shared services.
type peerKey struct {
	shared   bool
	identity uint32
}

func (a peerKey) compare(b peerKey) int {
	if a.shared != b.shared {
		return cmp.Compare(boolean(a.shared), boolean(b.shared))
	}
	return cmp.Compare(a.identity, b.identity)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// set is a set with its peers.
type set struct {
	wish
	number uint32
	base   *compile.Set
	// rows are the rows of peers that have a list, or that are undecided.
	rows map[peerKey]compile.Row
	// guards counts the guards that have the set.
	guards int
	// behind is true for a set that could not follow the labels of a namespace, by the quota.
	behind bool
	// out is nil after a change.
	out *Set
}

// list is a list of a VPC, with the number of rows that lead to it.
type list struct {
	*List
	uses int
}

// lists are the lists of a VPC, by content. A list keeps its number until sweep.
type lists struct {
	byContent map[string]*list
	last      uint32
}

func (l *lists) use(of *compile.List, size *Size) {
	if of == nil {
		return
	}
	one := l.byContent[of.Content]
	if one == nil {
		l.last++
		one = &list{List: &List{Number: l.last, Ports: of.Ports}}
		l.byContent[of.Content] = one
	}
	if one.uses++; one.uses == 1 {
		size.Ports += len(one.Ports)
	}
}

func (l *lists) release(of *compile.List, size *Size) {
	if of == nil {
		return
	}
	one := l.byContent[of.Content]
	if one.uses--; one.uses == 0 {
		size.Ports -= len(one.Ports)
	}
}

// number returns the number of a list in use, 0 for none.
func (l *lists) number(of *compile.List) uint32 {
	if of == nil {
		return 0
	}
	return l.byContent[of.Content].Number
}

// sweep forgets the lists that are not in use, and returns the others in their order.
func (l *lists) sweep() (all []*List) {
	for content, one := range l.byContent {
		if one.uses == 0 {
			delete(l.byContent, content)
			continue
		}
		all = append(all, one.List)
	}
	slices.SortFunc(all, func(a, b *List) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

// count adds the rows of a set to the VPC, in their order, so that numbers of lists follow from the
// changes alone.
func (v *vpc) count(s *set) {
	for _, key := range slices.SortedFunc(maps.Keys(s.rows), peerKey.compare) {
		v.countRow(s.rows[key], compile.Row{})
	}
	for _, net := range s.base.Nets {
		v.lists.use(net.List, &v.size)
	}
	v.size.Nets += len(s.base.Nets)
}

// discount takes the rows of a set away from the VPC.
func (v *vpc) discount(s *set) {
	for _, row := range s.rows {
		v.countRow(compile.Row{}, row)
	}
	for _, net := range s.base.Nets {
		v.lists.release(net.List, &v.size)
	}
	v.size.Nets -= len(s.base.Nets)
}

// countRow adds one row of a peer, and takes another one away.
func (v *vpc) countRow(now, before compile.Row) {
	v.lists.use(now.List, &v.size)
	v.lists.release(before.List, &v.size)
	if now.List != nil {
		v.size.Peers++
	}
	if before.List != nil {
		v.size.Peers--
	}
}

// row returns the row of a peer.
func (s *set) row(key peerKey, of *peer) compile.Row {
	if of == nil || key.shared && s.direction == policy.Ingress {
		return compile.Row{}
	}
	return s.base.Peer(&of.Peer)
}

// setRow changes the row of a peer.
func (v *vpc) setRow(s *set, key peerKey, now compile.Row) {
	before := s.rows[key]
	v.countRow(now, before)
	if s.rows[key] = now; now.List == nil && now.Undecided == nil {
		delete(s.rows, key)
	}
	if now.List != before.List {
		s.out = nil
	}
}

// newSet compiles the set of a wish for the known peers.
func (v *vpc) newSet(w wish) *set {
	s := &set{wish: w, base: compile.New(w.direction, w.policies, w.ports), rows: map[peerKey]compile.Row{}}
	if s.base.Clients != nil {
		s.rows[peerKey{identity: clients}] = compile.Row{List: s.base.Clients}
	}
	for key := range v.known {
		if row := s.row(key, v.peers[key]); row.List != nil || row.Undecided != nil {
			s.rows[key] = row
		}
	}
	return v.numbered(s)
}

func (v *vpc) numbered(s *set) *set {
	v.lastSet++
	s.number = v.lastSet
	return s
}

// waitsFor returns the policies that are undecided for a peer that is in use.
func (v *vpc) waitsFor(s *set) (keys []policy.Key) {
	for key, row := range s.rows {
		if of := v.peers[key]; of != nil && !of.Resting {
			keys = append(keys, row.Undecided...)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return slices.Compact(keys)
}

func compareKeys(a, b policy.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// outputSet returns the rows of a set, once its lists are in use.
func (v *vpc) outputSet(s *set) *Set {
	if s.out != nil {
		return s.out
	}
	out := &Set{Number: s.number, Causes: s.base.Causes, Isolation: s.base.Isolation}
	for _, key := range slices.SortedFunc(maps.Keys(s.rows), peerKey.compare) {
		if list := s.rows[key].List; list != nil {
			out.Peers = append(out.Peers, Peer{key.shared, key.identity, v.lists.number(list)})
		}
	}
	for _, net := range s.base.Nets {
		out.Nets = append(out.Nets, Net{net.Prefix, v.lists.number(net.List)})
	}
	s.out = out
	return out
}
