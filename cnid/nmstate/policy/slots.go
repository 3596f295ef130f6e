// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// DefaultUnavailable is the share of a policy's nodes that may change at the same time.
const DefaultUnavailable = nmstate.Unavailable("50%")

// Limit returns how many of a number of nodes may change at the same time: at least one.
// A percentage is rounded up. An error comes with the limit of the default.
func Limit(u nmstate.Unavailable, nodes int) (int, error) {
	if u == "" {
		u = DefaultUnavailable
	}
	digits, percent := strings.CutSuffix(string(u), "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		limit, _ := Limit(DefaultUnavailable, nodes)
		return limit, fmt.Errorf("maxUnavailable: %q is no number and no percentage; use for example 3 or 50%%", string(u))
	}
	if percent {
		n = (n*uint64(max(nodes, 0)) + 99) / 100
	}
	return max(int(n), 1), nil
}

// spare is how many failures more than the limit a roll-out endures: the share of one node
// whose token is stolen, and that reports failures as it likes.
const spare = 1

// Enactment holds the progress of a policy on a node.
type Enactment struct {
	Node string
	// Generation of the policy that the enactment is about.
	Generation int64
	// Pending: the node waits for a slot.
	Pending bool
	// Failed: the node had a slot for this generation, and tries no further.
	Failed bool
	// Down: the node had a slot for this generation, does not have what the policy desires,
	// and is not Ready.
	Down bool
	// Expires is when the node's slot ends; zero if it has none.
	Expires time.Time
}

// lives reports whether the node may change now.
func (e Enactment) lives(now time.Time) bool { return e.Expires.After(now) }

// Queue holds the nodes of a policy with their enactments, for the choice of the next slots.
type Queue struct {
	Unavailable nmstate.Unavailable
	Generation  int64
	// Nodes are those that the policy applies to.
	Nodes []string
	// Last is the node that got a slot last, "" for none.
	Last string
	// Enactments are the enactments of the policy, one for each node.
	Enactments []Enactment
	Now        time.Time
}

// Rollout has the progress of a policy.
type Rollout struct {
	// Limit is how many nodes may change at the same time, and Changing how many do.
	Limit, Changing int
	// Down is how many nodes are not Ready since they began. They count as nodes that change.
	Down int
	// Next are nodes that may begin, in their turn. They change once they have a slot.
	Next []string
	// Aborted: more nodes failed than may change at the same time, so no node begins.
	Aborted bool
}

// NextSlots decides which nodes may begin. It counts the slots that have not expired, and stores
// nothing: an expired slot is free. A slot of an older generation counts too, and so does a slot
// of a node that the policy no longer selects: that node changes. Failures count only with this
// generation, because a new generation is a new try for all nodes.
//
// One node can't stop the others: its failures count as one, and a roll-out endures one failure
// more than its limit. A node that holds a slot in vain does so for the time of one slot. Then
// all other waiting nodes have their turn before it. The number of nodes that change is limited
// such that the failures never exceed that number, even if all fail.
func NextSlots(q Queue) (Rollout, error) {
	applicable := slices.Compact(slices.Sorted(slices.Values(q.Nodes)))
	limit, err := Limit(q.Unavailable, len(applicable))
	c := q.census(applicable)
	r := Rollout{Limit: limit, Changing: len(c.changing), Down: len(c.down), Aborted: len(c.failed) >= limit+spare}
	free := min(limit-len(c.down), limit+spare-len(c.failed)) - len(c.changing)
	for _, node := range inTurn(applicable, q.Last) {
		if c.waiting[node] && len(r.Next) < free {
			r.Next = append(r.Next, node)
		}
	}
	return r, err
}

// census has nodes by what counts of them.
type census struct{ changing, down, failed, waiting map[string]bool }

func (q Queue) census(applicable []string) census {
	c := census{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, e := range q.Enactments {
		if e.lives(q.Now) {
			c.changing[e.Node] = true
			continue
		}
		if e.Down {
			c.down[e.Node] = true
		}
		_, applies := slices.BinarySearch(applicable, e.Node)
		switch {
		case e.Generation != q.Generation:
		case e.Failed && applies:
			c.failed[e.Node] = true
		case e.Pending:
			c.waiting[e.Node] = true
		}
	}
	return c
}

// inTurn begins with the nodes after the last one. Both have the order of names.
func inTurn(nodes []string, last string) []string {
	at, found := slices.BinarySearch(nodes, last)
	if found {
		at++
	}
	return slices.Concat(nodes[at:], nodes[:at])
}
