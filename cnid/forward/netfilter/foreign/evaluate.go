// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// ours is a set of kinds of Alioth's packets.
type ours uint

const (
	// fromPods and toPods begin flows. replies go to pods.
	fromPods ours = 1 << iota
	toPods
	replies
	tunnel

	all = fromPods | toPods | replies | tunnel
)

// rule has the understood parts of a rule of another program.
type rule struct {
	conditions
	// always tells that the rule has no condition.
	always bool
	// verdict is drop for a rejection, too, and continue for a rule without a verdict. target is
	// the chain of a jump or goto.
	verdict expr.VerdictKind
	target  string
}

// conditions are the conditions of a rule and of the jumps that lead to its chain.
type conditions struct {
	// fits has the packets that no condition excludes.
	fits ours
	// named has the packets that a condition is made for. wide has those that it lets through
	// with others.
	named, wide ours
	// unread tells that some conditions are not understood, or can exclude the tunnel.
	unread bool
}

// add notes a condition about a field.
func (c *conditions) add(f field, holds func(value []byte) bool) {
	var fits ours
	for _, k := range f {
		switch {
		case k.value == nil:
			fits |= k.of
			c.unread = c.unread || k.of&tunnel != 0
		case holds(k.value):
			fits |= k.of
			if k.wide {
				c.wide |= k.of
			} else {
				c.named |= k.of
			}
		}
	}
	if len(f) == 0 {
		fits, c.unread = all, true
	}
	c.fits &= fits
}

// and returns the conditions of both.
func (c conditions) and(d conditions) conditions {
	return conditions{c.fits & d.fits, c.named | d.named, c.wide | d.wide, c.unread || d.unread}
}

// means returns the packets that a rule with these conditions is made for. A condition that lets
// others through, too, counts if no other condition may exclude Alioth's packets.
func (c conditions) means() ours {
	if c.unread {
		return c.fits & c.named
	}
	return c.fits & (c.named | c.wide)
}

// chain is a chain of another program.
type chain struct {
	// hook is the hook of a base chain that filters, otherwise nil.
	hook *nftables.ChainHook
	// drops reports whether the policy is drop.
	drops bool
	rules []rule
}

// table has the chains of one table by name.
type table map[string]chain

// maxJumps is the kernel's limit of nested jumps (NFT_JUMP_STACK_SIZE).
const maxJumps = 16

// drops reports whether a base chain drops some of these packets: by its policy, or by rules
// without conditions, while no rule with a condition is made to accept them.
func (t table) drops(base string, packets ours) bool {
	end := t.end(base, 0)
	if end != expr.VerdictDrop && (end != expr.VerdictContinue || !t[base].drops) {
		return false
	}
	return packets&^t.accepts(base, conditions{fits: all}, map[visit]bool{}) != 0
}

// end returns accept or drop if the rules without conditions decide about all packets of a chain,
// otherwise continue.
func (t table) end(name string, depth int) expr.VerdictKind {
	for _, r := range t[name].rules {
		if !r.always {
			continue
		}
		switch r.verdict {
		case expr.VerdictReturn:
			return expr.VerdictContinue
		case expr.VerdictAccept, expr.VerdictDrop:
			return r.verdict
		case expr.VerdictJump, expr.VerdictGoto:
			if depth == maxJumps {
				continue
			}
			if end := t.end(r.target, depth+1); end != expr.VerdictContinue || r.verdict == expr.VerdictGoto {
				return end
			}
		}
	}
	return expr.VerdictContinue
}

// visit is a chain, and the conditions under which packets get there.
type visit struct {
	chain string
	conditions
}

// accepts returns the packets that rules made for them accept, in a chain or below it. The
// conditions of jumps count with the conditions of the rules below.
func (t table) accepts(name string, under conditions, seen map[visit]bool) (accepted ours) {
	at := visit{name, under}
	if seen[at] {
		return 0
	}
	seen[at] = true
	for _, r := range t[name].rules {
		both := under.and(r.conditions)
		switch r.verdict {
		case expr.VerdictAccept:
			accepted |= both.means()
		case expr.VerdictJump, expr.VerdictGoto:
			accepted |= t.accepts(r.target, both, seen)
		}
		if r.always && r.verdict != expr.VerdictContinue && r.verdict != expr.VerdictJump {
			break // no packet gets to the rules below
		}
	}
	return accepted
}
