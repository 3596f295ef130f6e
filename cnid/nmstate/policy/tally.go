// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
)

// tally is an aggregation that is being made.
type tally struct {
	leaves []owned
	// fields are the leaves by path.
	fields map[string]owned
	// above has the owner of a first leaf below each path.
	above map[string]string
	// identities are the identities of interfaces by name.
	identities map[string]identity
	conflicts  []Conflict
	asked      []asked
}

// identity is on what all owners of an interface agree. A state is "" if only fields were set
// by hand that say nothing of it.
type identity struct {
	kind, state           string
	kindOwner, stateOwner string
	// bare: the owner has the interface's name, and nothing else.
	bare bool
}

// add gives an owner the fields that nobody has yet.
func (t *tally) add(owner string, leaves []leaf) {
	t.asked = append(t.asked, asked{owner, leaves})
	lost := t.agree(owner, leaves)
	// Entries are compared with entries of others only: absent and add in one state is how a
	// route changes.
	before := len(t.leaves)
	for _, l := range leaves {
		if called, ok := l.path.iface(); ok && lost[called] {
			continue
		}
		if winner, same := t.holder(l, before); winner != "" {
			if !same {
				t.conflicts = append(t.conflicts, Conflict{Path: l.at, Winner: winner, Loser: owner})
			}
			continue
		}
		field := owned{leaf: l, owner: owner}
		t.leaves = append(t.leaves, field)
		t.fields[l.at] = field
		for i := 1; i < len(l.path); i++ {
			if above := l.path[:i].String(); t.above[above] == "" {
				t.above[above] = owner
			}
		}
	}
}

// holder returns the owner that keeps a field from the next owner, or "". same tells whether both
// want the same value.
func (t *tally) holder(l leaf, before int) (winner string, same bool) {
	if held, ok := t.fields[l.at]; ok {
		return held.owner, held.text == l.text
	}
	if l.path.entry() {
		for _, held := range t.leaves[:before] {
			if contradict(held.leaf, l) {
				return held.owner, false
			}
		}
		return "", false
	}
	for i := 1; i < len(l.path); i++ {
		if held, ok := t.fields[l.path[:i].String()]; ok {
			return held.owner, false
		}
	}
	return t.above[l.at], false
}

// agree returns the interfaces whose fields an owner does not get.
func (t *tally) agree(owner string, leaves []leaf) map[string]bool {
	lost := map[string]bool{}
	wanted := identitiesOf(owner, leaves)
	for _, l := range leaves {
		called, ok := l.path.iface()
		if !ok || len(l.path) != 3 || l.path[2].key != name {
			continue
		}
		want := wanted[called]
		have, known := t.identities[called]
		at := l.path[:2]
		switch {
		case owner == Manual && want.bare: // it says nothing
		case !known:
			t.identities[called] = want
		case !have.agrees(want.state):
			lost[called] = true
			t.conflicts = append(t.conflicts, Conflict{Path: field(at, state).String(), Winner: have.stateOwner, Loser: owner})
		case have.kind != "" && want.kind != "" && class(have.kind) != class(want.kind):
			lost[called] = true
			t.conflicts = append(t.conflicts, Conflict{Path: field(at, kind).String(), Winner: have.kindOwner, Loser: owner})
		default:
			t.identities[called] = have.with(want)
		}
	}
	return lost
}

// agrees reports whether the next owner may want a state. A part set by hand without a
// state is for an interface that exists, up or down.
func (i identity) agrees(state string) bool {
	if i.state == "" {
		return state == up || state == down
	}
	return i.state == state
}

// with fills in the missing type and state.
func (i identity) with(next identity) identity {
	if i.kind == "" {
		i.kind, i.kindOwner = next.kind, next.kindOwner
	}
	if i.state == "" {
		i.state, i.stateOwner = next.state, next.stateOwner
	}
	return i
}

func identitiesOf(owner string, leaves []leaf) map[string]identity {
	wanted := map[string]identity{}
	for _, l := range leaves {
		called, ok := l.path.iface()
		if !ok {
			continue
		}
		want, known := wanted[called]
		if !known {
			want = identity{state: up, stateOwner: owner, bare: true}
			if owner == Manual {
				want.state = ""
			}
		}
		want.bare = want.bare && len(l.path) == 3 && l.path[2].key == name
		if text, isText := l.value.(string); isText && len(l.path) == 3 {
			switch l.path[2].key {
			case kind:
				want.kind, want.kindOwner = text, owner
			case state:
				want.state = text
			}
		}
		wanted[called] = want
	}
	return wanted
}

// class returns the class of a type: an end of a veth pair may be called ethernet, as in nmstate.
func class(kind string) string {
	if kind == "veth" {
		return "ethernet"
	}
	return kind
}

// ofMaker reports whether a leaf tells by whom an interface has to be made.
func (l leaf) ofMaker() bool {
	_, ok := l.path.iface()
	return ok && len(l.path) == 3 && l.path[2].key == madeBy
}

// claimed are the interfaces that an owner wants to have or to remove, whoever makes them.
func (t *tally) claimed() map[string]bool {
	claimed := map[string]bool{}
	for _, one := range t.asked {
		for called, fields := range byInterface(one.leaves) {
			whole := textOf(fields, kind) != "" || textOf(fields, state) == absent
			claimed[called] = claimed[called] || whole && textOf(fields, madeBy) == ""
		}
	}
	return claimed
}

func (t *tally) result(refused []Refusal) Aggregation {
	if slices.ContainsFunc(t.leaves, func(l owned) bool { return l.ofMaker() }) {
		claimed := t.claimed()
		t.leaves = slices.DeleteFunc(t.leaves, func(l owned) bool { return l.ofMaker() && claimed[l.path[1].key] })
	}
	a := Aggregation{
		Desired:      format(bare(t.leaves, func(string) bool { return true })),
		FromPolicies: format(bare(t.leaves, func(owner string) bool { return owner != Manual })),
		Conflicts:    t.conflicts, Refused: refused, leaves: t.leaves, asked: t.asked,
	}
	for _, f := range t.leaves {
		a.Owners = append(a.Owners, Owner{Path: f.at, Owner: f.owner})
	}
	slices.SortFunc(a.Owners, func(a, b Owner) int { return strings.Compare(a.Path, b.Path) })
	return a
}
