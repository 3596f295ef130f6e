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

// rule is what the package understands of a rule of another program.
type rule struct {
	// always tells that the rule has no condition. means has the packets that fit the conditions
	// which the package understands, or none without such a condition.
	always bool
	means  ours
	// verdict is drop for a rejection, too, and continue for a rule without a verdict. target is
	// the chain of a jump or goto.
	verdict expr.VerdictKind
	target  string
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
	return packets&^t.accepts(base, map[string]bool{}) != 0
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

// accepts returns the packets that rules with conditions accept, in a chain or below it. A jump to another chain counts: a program has such a chain to look at these packets.
func (t table) accepts(name string, seen map[string]bool) (accepted ours) {
	if seen[name] {
		return 0
	}
	seen[name] = true
	for _, r := range t[name].rules {
		switch r.verdict {
		case expr.VerdictAccept:
			accepted |= r.means
		case expr.VerdictJump, expr.VerdictGoto:
			if _, ok := t[r.target]; ok {
				accepted |= r.means | t.accepts(r.target, seen)
			}
		}
	}
	return accepted
}
