// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate //nolint:testpackage // who gets a slot is an inner step

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// Waiting returns the number of interfaces that wait for a slot.
func Waiting(d *Delegates) int {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	return len(d.queue.waiting)
}

// hasSlot reports whether it is the turn of a ticket.
func hasSlot(t *ticket) bool {
	select {
	case <-t.turn:
		return true
	default:
		return false
	}
}

func TestSlots_PodNamespaceNodeLimits_Held(t *testing.T) {
	q := newQueue(Slots{Pod: 2, Namespace: 3, Node: 5})
	a1, a2, a3, b, c := party{"a", "1"}, party{"a", "2"}, party{"a", "3"}, party{"b", "4"}, party{"c", "5"}
	for i, step := range []struct {
		party
		has bool
	}{
		{a1, true}, {a1, true}, {a1, false}, // the pod has no third one
		{a2, true}, {a3, false}, // the namespace has no fourth one
		{b, true}, {b, true}, {c, false}, // the node has no sixth one
	} {
		if got := hasSlot(q.join(step.party, false)); got != step.has {
			t.Errorf("step %d: has a slot: %t", i, got)
		}
	}
}

func TestSlots_SeveralWaiters_FewestRunningFirst(t *testing.T) {
	big, small, other := party{"a", "big"}, party{"a", "small"}, party{"b", "other"}
	for name, c := range map[string]struct {
		running []party
		waiting []*ticket
		want    int
	}{
		"the namespace with fewer":         {[]party{big, big}, []*ticket{{party: small}, {party: other}}, 1},
		"the pod with fewer":               {[]party{big}, []*ticket{{party: big}, {party: small}}, 1},
		"the first of equals":              {nil, []*ticket{{party: small}, {party: other}}, 0},
		"one whose DEL did not fail":       {nil, []*ticket{{party: big, late: true}, {party: big}}, 1},
		"fewer precede one that is late":   {[]party{other}, []*ticket{{party: other}, {party: big, late: true}}, 1},
		"none where the node has no slots": {[]party{big, big, small, other}, []*ticket{{party: other}}, -1},
	} {
		q := newQueue(Slots{Pod: 3, Namespace: 4, Node: 4})
		for _, one := range c.running {
			q.add(one, 1)
		}
		q.waiting = c.waiting
		if got := q.next(); got != c.want {
			t.Errorf("%s: next is %d, want %d", name, got, c.want)
		}
	}
}

// TestSlot_AfterUse_Freed, whether it was used, given back, or not waited for any longer.
func TestSlot_AfterUse_Freed(t *testing.T) {
	q := newQueue(Slots{Pod: 1, Namespace: 1, Node: 1})
	one := party{"a", "1"}
	release, err := q.acquire(t.Context(), one, false)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.acquire(ended, one, false); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled wait: %v", err)
	}
	next := q.join(one, false)
	release()
	if !hasSlot(next) {
		t.Error("the next one has no slot")
	}
	q.leave(next)
	if q.running() != 0 || len(q.waiting) != 0 || len(q.namespaces) != 0 || len(q.pods) != 0 {
		t.Errorf("left are %s", fmt.Sprint(q.node, q.waiting, q.namespaces, q.pods))
	}
}
