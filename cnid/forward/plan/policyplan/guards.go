// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyplan

import (
	"maps"
	"slices"

	"github.com/alioth-net/alioth/store/rows/policy"
)

// group has the guards that shall get a set that does not exist yet.
type group struct {
	wish   wish
	guards []guardKey
}

// choose gives the guards the sets that policies want.
func (v *vpc) choose(p *Planner) {
	for guard := range v.current {
		if _, here := v.interfaces[guard.ifindex]; !here {
			v.move(guard, nil)
			delete(v.current, guard)
		}
	}
	groups, byKey := []*group(nil), map[string]*group{}
	wanted := map[uint32][]wish{}
	for _, ifindex := range slices.Sorted(maps.Keys(v.interfaces)) {
		number := v.interfaces[ifindex]
		wishes, ok := v.wishes(p, number)
		if !ok {
			v.delayAll(ifindex)
			continue
		}
		wanted[number] = wishes
		for _, w := range wishes {
			if guard := (guardKey{ifindex, w.direction, w.mode}); !v.settle(guard, w) {
				if byKey[w.key] == nil {
					byKey[w.key] = &group{wish: w}
					groups = append(groups, byKey[w.key])
				}
				byKey[w.key].guards = append(byKey[w.key].guards, guard)
			}
		}
	}
	v.wanted = wanted
	v.dropUnused()
	for _, g := range groups {
		v.introduce(g, p.quota)
	}
}

// wishes returns the sets that the interfaces of an identity shall have, if the identity is known.
func (v *vpc) wishes(p *Planner, number uint32) ([]wish, bool) {
	if known := v.wanted[number]; known != nil {
		return known, true
	}
	key := peerKey{identity: number}
	if !v.known[key] {
		return nil, false
	}
	return p.policies.wishes(v.peers[key]), true
}

// settle gives a guard its set, unless the set does not exist yet.
func (v *vpc) settle(guard guardKey, w wish) bool {
	switch s := v.sets[w.key]; {
	case len(w.undecided) > 0:
		v.delay(guard, OmittedKey, w.undecided)
	case w.key == "":
		v.move(guard, nil)
	case s != nil:
		if v.move(guard, s); s.behind {
			v.delay(guard, TooLarge, keysOf(w.policies))
		}
	default:
		return false
	}
	return true
}

// move gives a guard another set.
func (v *vpc) move(guard guardKey, to *set) {
	if from := v.current[guard]; from != nil {
		from.guards--
	}
	if v.current[guard] = to; to != nil {
		to.guards++
	}
}

// dropUnused removes the sets that no guard has, and returns them.
func (v *vpc) dropUnused() (dropped []*set) {
	for key, s := range v.sets {
		if s.guards == 0 {
			delete(v.sets, key)
			v.discount(s)
			dropped = append(dropped, s)
		}
	}
	return dropped
}

// introduce makes a set, and gives it to its guards. A guard keeps its older set if the new one is
// undecided about a peer. All guards keep their older sets if the new one does not fit.
func (v *vpc) introduce(g *group, quota Size) {
	s := v.newSet(g.wish)
	guards := g.guards
	if undecided := v.waitsFor(s); len(undecided) > 0 {
		guards = slices.DeleteFunc(guards, func(guard guardKey) bool {
			v.delay(guard, OmittedKey, undecided)
			_, older := v.current[guard]
			return older
		})
	}
	if len(guards) == 0 {
		return
	}
	v.count(s)
	v.sets[s.key] = s
	before := map[guardKey]*set{}
	for _, guard := range guards {
		if older, ok := v.current[guard]; ok {
			before[guard] = older
		}
		v.move(guard, s)
	}
	if dropped := v.dropUnused(); !v.size.within(quota) {
		v.takeBack(s, guards, before, dropped)
	}
}

// takeBack undoes the introduction of a set that does not fit.
func (v *vpc) takeBack(s *set, guards []guardKey, before map[guardKey]*set, dropped []*set) {
	for _, one := range dropped {
		v.sets[one.key] = one
		v.count(one)
	}
	for _, guard := range guards {
		older, ok := before[guard]
		if v.move(guard, older); !ok {
			delete(v.current, guard)
		}
		v.delay(guard, TooLarge, keysOf(s.policies))
	}
	delete(v.sets, s.key)
	v.discount(s)
}

func (v *vpc) delay(guard guardKey, reason Reason, policies []policy.Key) {
	_, older := v.current[guard]
	v.delays = append(v.delays, Delay{
		Ifindex: guard.ifindex, Direction: guard.direction, Rehearsed: guard.mode == rehearsed,
		Reason: reason, Policies: policies, Without: !older,
	})
}

// delayAll delays all sets of an interface whose identity is not known.
func (v *vpc) delayAll(ifindex int) {
	for mode := range modes {
		for direction := range policy.Egress + 1 {
			v.delay(guardKey{ifindex, direction, mode}, UnknownIdentity, nil)
		}
	}
}

func keysOf(policies []*policy.Policy) (keys []policy.Key) {
	for _, row := range policies {
		keys = append(keys, row.Key)
	}
	return keys
}
