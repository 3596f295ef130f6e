// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/alioth-net/alioth/store/nmstate"
	"github.com/alioth-net/alioth/store/nmstate/enact"
	"github.com/alioth-net/alioth/store/nmstate/policy"
)

// freshWithin is how long a policy waits for a report that is up to date. A network that changes
// all the time keeps no policy from its node.
const freshWithin = 10 * time.Second

// decide returns the changes of a node's objects. A policy stays as it is while the reported state
// of the node is older than its network: the end of the policy restores what the report has. waits
// reports that there is such a policy.
func (h *Handler) decide(ctx context.Context, r rows, node policy.Node, stuck map[policy.Reference]bool, now time.Time) (c enact.Changes, waits bool, err error) {
	var network map[string]any
	stuck = maps.Clone(stuck)
	for {
		c = enact.Node(r.situation(node, stuck, now))
		if h.cfg.Network == nil {
			return c, false, nil
		}
		begin := beginning(r, c)
		if len(begin) > 0 && network == nil {
			if network, err = h.cfg.Network(ctx); err != nil {
				return c, false, fmt.Errorf("read the network of node %s: %w", node.Name, err)
			}
		}
		begin = slices.DeleteFunc(begin, func(b begun) bool { return b.isFresh(r.state.Current, network) })
		if h.late(node.Name, waits || len(begin) > 0, now) > freshWithin || len(begin) == 0 {
			return c, waits, nil
		}
		for _, b := range begin {
			stuck[b.is.Policy], waits = true, true
		}
	}
}

// begun is an enactment whose policy begins to change the node.
type begun struct{ was, is *nmstate.Enactment }

func beginning(r rows, c enact.Changes) (list []begun) {
	for n := range c.Put {
		is := &c.Put[n]
		at := slices.IndexFunc(r.enactments, func(e *nmstate.Enactment) bool { return e.Name == is.Name })
		if is.Trial.Open && at >= 0 && !r.enactments[at].Trial.Open {
			list = append(list, begun{r.enactments[at], is})
		}
	}
	return list
}

// isFresh reports whether a reported state has the network as far as the policy may change it.
func (b begun) isFresh(reported, network map[string]any) bool {
	old, err := policy.Excerpt(reported, b.is.Desired, b.was.Applied)
	if err != nil {
		return true // The report can't be read, and nothing begins by it.
	}
	now, err := policy.Excerpt(network, b.is.Desired, b.was.Applied)
	return err == nil && policy.Same(old, now)
}

// late notes whether policies of a node wait for a report, and returns for how long they have
// waited.
func (h *Handler) late(node string, waits bool, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	since, ok := h.since[node]
	switch {
	case !waits:
		delete(h.since, node)
		return 0
	case !ok:
		h.since[node] = now
		return 0
	}
	return now.Sub(since)
}
