// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultUnavailable is the share of a policy's nodes that may change at the same time.
const DefaultUnavailable = Unavailable("50%")

// Unavailable is a number of nodes, or a percentage like 50%. "" is DefaultUnavailable.
type Unavailable string

// Limit is how many of a number of nodes may change at the same time: at least one.
// A percentage is rounded up. An error comes with the limit of the default.
func (u Unavailable) Limit(nodes int) (int, error) {
	if u == "" {
		u = DefaultUnavailable
	}
	digits, percent := strings.CutSuffix(string(u), "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		limit, _ := DefaultUnavailable.Limit(nodes)
		return limit, fmt.Errorf("maxUnavailable: %q is no number and no percentage; use for example 3 or 50%%", string(u))
	}
	if percent {
		n = (n*uint64(max(nodes, 0)) + 99) / 100
	}
	return max(int(n), 1), nil
}

// Enactment is what became of a policy on a node.
type Enactment struct {
	Node string
	// Generation of the policy that the enactment is about.
	Generation int64
	// Pending: the node waits for a slot.
	Pending bool
	// Failed: the node tries no further.
	Failed bool
	// Expires is when the node's slot ends; zero if it has none.
	Expires time.Time
}

// lives reports whether the node may change now.
func (e Enactment) lives(now time.Time) bool { return e.Expires.After(now) }

// Rollout is how far a policy is.
type Rollout struct {
	// Limit is how many nodes may change at the same time, and Changing how many do.
	Limit, Changing int
	// Next are nodes that may begin, sorted. They change once they have a slot.
	Next []string
	// Aborted: as many nodes failed as may change at the same time, so no node begins.
	Aborted bool
}

// NextSlots decides which nodes may begin. The policy applies to nodes, and enactments has
// its enactments, one for each node. NextSlots counts the slots that have not expired, and
// stores nothing: an expired slot is free. A slot also counts if it is of an older
// generation, or of a node for which the policy is no longer: that node changes. Failures
// count only if they are of this generation, which is a new try for all.
func NextSlots(limit Unavailable, generation int64, nodes []string, enactments []Enactment, now time.Time) (Rollout, error) {
	var r Rollout
	var err error
	applicable := slices.Compact(slices.Sorted(slices.Values(nodes)))
	r.Limit, err = limit.Limit(len(applicable))
	changing, waiting, failed := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, e := range enactments {
		switch {
		case e.lives(now):
			changing[e.Node] = true
		case e.Generation != generation:
		case e.Failed:
			failed[e.Node] = true
		case e.Pending:
			waiting[e.Node] = true
		}
	}
	r.Changing = len(changing)
	count := 0
	for _, node := range applicable {
		if failed[node] {
			count++
		}
	}
	r.Aborted = count >= r.Limit
	for _, node := range applicable {
		if !r.Aborted && waiting[node] && r.Changing+len(r.Next) < r.Limit {
			r.Next = append(r.Next, node)
		}
	}
	return r, err
}
