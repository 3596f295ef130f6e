// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Slots is the number of interfaces that may have a plugin running at the same time: of one pod,
// of the pods of one namespace, and of the node.
type Slots struct{ Pod, Namespace, Node int }

// DefaultSlots keep one pod, and one namespace, whose plugins hang from having all slots. A
// namespace may have as many as two pods, and the node as many as two namespaces.
var DefaultSlots = Slots{Pod: 4, Namespace: 8, Node: 16}

// party has the interfaces of one pod in a namespace, which compete for slots.
type party struct{ namespace, container string }

// queue hands out slots. Among the tickets that may have one, a ticket of the namespace and of
// the pod with the fewest plugins running is first. Among the interfaces of a pod, an interface
// whose last DEL has failed comes last. So hanging plugins don't keep the pod from the DELs of
// its other interfaces. The rest goes by the time of arrival.
type queue struct {
	limits Slots

	mu         sync.Mutex
	node       int
	namespaces map[string]int
	pods       map[party]int
	waiting    []*ticket
}

// ticket waits for a slot.
type ticket struct {
	party
	late bool
	// turn is closed when the ticket has a slot.
	turn chan struct{}
}

func newQueue(limits Slots) *queue {
	return &queue{limits: limits, namespaces: map[string]int{}, pods: map[party]int{}}
}

// acquire waits for a slot, or returns the error of ctx.
func (q *queue) acquire(ctx context.Context, of party, late bool) (release func(), err error) {
	t := q.join(of, late)
	select {
	case <-t.turn:
		return func() { q.release(of) }, nil
	case <-ctx.Done():
		q.leave(t)
		return nil, ctx.Err()
	}
}

// join returns a ticket for a slot.
func (q *queue) join(of party, late bool) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &ticket{party: of, late: late, turn: make(chan struct{})}
	q.waiting = append(q.waiting, t)
	q.advance()
	return t
}

// leave gives a ticket back, or the slot that it has got meanwhile.
func (q *queue) leave(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, t); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return
	}
	q.add(t.party, -1)
	q.advance()
}

func (q *queue) release(of party) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(of, -1)
	q.advance()
}

// running returns the number of interfaces of the node with a running plugin.
func (q *queue) running() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.node
}

// advance hands out the slots that are free. The caller holds the lock.
func (q *queue) advance() {
	for {
		i := q.next()
		if i < 0 {
			return
		}
		t := q.waiting[i]
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.add(t.party, 1)
		close(t.turn)
	}
}

// next returns the index of the ticket that gets a slot, -1 for none.
func (q *queue) next() int {
	best := -1
	for i, t := range q.waiting {
		if q.node >= q.limits.Node || q.namespaces[t.namespace] >= q.limits.Namespace || q.pods[t.party] >= q.limits.Pod {
			continue
		}
		if best < 0 || q.compare(t, q.waiting[best]) < 0 {
			best = i
		}
	}
	return best
}

func (q *queue) compare(a, b *ticket) int {
	return cmp.Or(
		cmp.Compare(q.namespaces[a.namespace], q.namespaces[b.namespace]),
		cmp.Compare(q.pods[a.party], q.pods[b.party]),
		cmp.Compare(number(a.late), number(b.late)),
	)
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (q *queue) add(of party, n int) {
	q.node += n
	if q.namespaces[of.namespace] += n; q.namespaces[of.namespace] == 0 {
		delete(q.namespaces, of.namespace)
	}
	if q.pods[of] += n; q.pods[of] == 0 {
		delete(q.pods, of)
	}
}
