// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
)

// restoreRules restores the rules with the priorities of the area. The kernel makes rules for
// the first VRF, and keeps them.
func (p *planner) restoreRules(before, now []Message) {
	c := object.Rules()
	had := canonical(c, before)
	ours := func(m Message) bool { return slices.Contains(p.area.Rules, object.PriorityOf(m)) }
	for _, m := range now {
		if !had[c.Canonical(m)] && (ours(m) || len(p.area.Made) > 0 && c.Attributes(m).Value(object.RuleL3) != 0) {
			p.rule("remove", c.Remove, 0, m)
		}
	}
	p.addRules(filtered(before, ours), canonical(c, now))
}

// addRules adds the missing rules. The kernel appends a rule to the rules of its priority. So
// addRules removes the rules that came after a missing one, and adds them again.
func (p *planner) addRules(list []Message, have map[string]bool) {
	type place struct {
		family   byte
		priority uint32
	}
	c, again := object.Rules(), map[place]bool{}
	for _, m := range list {
		at := place{m[0], object.PriorityOf(m)}
		is := have[c.Canonical(m)]
		if is && again[at] {
			p.rule("remove", c.Remove, 0, m)
		}
		if !is || again[at] {
			again[at] = true
			p.rule("add", c.Add, c.Create, m)
		}
	}
}

func (p *planner) rule(what string, kind, flags int, m Message) {
	p.request(Request{What: fmt.Sprintf("%s the rule %d", what, object.PriorityOf(m)), Kind: kind, Flags: flags, Body: m})
}
