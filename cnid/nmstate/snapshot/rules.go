// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"slices"
)

// Attributes of rules (include/uapi/linux/fib_rules.h).
const (
	rulePriority = 6  // FRA_PRIORITY
	ruleL3       = 19 // FRA_L3MDEV
)

// restoreRules restores the rules with the priorities of the area. The kernel makes rules for
// the first VRF, and keeps them.
func (p *planner) restoreRules(before, now []Message) {
	c := rules()
	had := canonical(c, before)
	ours := func(m Message) bool { return slices.Contains(p.area.Rules, priorityOf(m)) }
	for _, m := range now {
		if !had[c.canonical(m)] && (ours(m) || len(p.area.Made) > 0 && c.attributes(m).Value(ruleL3) != 0) {
			p.rule("remove", c.remove, 0, m)
		}
	}
	p.addRules(filtered(before, ours), canonical(c, now))
}

// addRules adds the missing rules. The kernel appends a rule to those of its priority: so the
// rules that came after a missing one are removed, and added again.
func (p *planner) addRules(list []Message, have map[string]bool) {
	type place struct {
		family   byte
		priority uint32
	}
	c, again := rules(), map[place]bool{}
	for _, m := range list {
		at := place{m[0], priorityOf(m)}
		is := have[c.canonical(m)]
		if is && again[at] {
			p.rule("remove", c.remove, 0, m)
		}
		if !is || again[at] {
			again[at] = true
			p.rule("add", c.add, c.create, m)
		}
	}
}

func priorityOf(m Message) uint32 { return rules().attributes(m).Value(rulePriority) }

func (p *planner) rule(what string, kind, flags int, m Message) {
	p.request(Request{What: fmt.Sprintf("%s the rule %d", what, priorityOf(m)), Kind: kind, Flags: flags, Body: m})
}
