// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/alioth-net/alioth/store"
)

// Request asks a controller to process an object, now or after a delay. Of several
// waiting requests for one object the earliest counts, so a delay limits how often an
// object with many changes is processed.
type Request struct {
	reconcile.Request
	After time.Duration
	// Priority orders requests that are due: higher ones first, equal ones by time of arrival. Of
	// several requests for one object the highest counts.
	Priority int
}

// Now requests an object at once. The namespace is "" for cluster-scoped ones.
func Now(namespace, name string) Request {
	return Later(0, namespace, name)
}

// Later requests an object after a delay.
func Later(after time.Duration, namespace, name string) Request {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	return Request{Request: reconcile.Request{NamespacedName: key}, After: after}
}

// Mapper returns the objects that a change concerns.
type Mapper func(tx store.ReadTx, change Change) []Request

// On makes a Mapper for changes of one type of row. old is nil for a new row, now is nil for a
// deleted one.
func On[R any](mapRow func(tx store.ReadTx, old, now *R) []Request) Mapper {
	return func(tx store.ReadTx, change Change) []Request {
		old, isOld := change.Old.(*R)
		now, isNow := change.New.(*R)
		if !isOld && !isNow {
			return nil
		}
		return mapRow(tx, old, now)
	}
}

// Either returns the row after the change, or the last row of a deleted object.
func Either[R any](old, now *R) *R {
	if now != nil {
		return now
	}
	return old
}

// Source feeds a controller's queue. It implements source.SyncingSource.
type Source struct {
	feed    *Feed
	initial func(tx store.ReadTx) []Request
	mappers []Mapper
	// turns is nil where all requests have the priority that the mappers give them.
	turns *turns

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// NewSource returns a source. Once the store is filled, it requests all objects that initial lists,
// and from then on the objects that the mappers return.
func NewSource(f *Feed, initial func(tx store.ReadTx) []Request, mappers ...Mapper) *Source {
	return &Source{feed: f, initial: initial, mappers: mappers}
}

// ByTurns has the tenants take turns, by Rounds: the more objects of a tenant wait for the
// controller, the later it processes the next one. It is for kinds that tenants make.
func (s *Source) ByTurns() *Source {
	s.turns = newTurns()
	return s
}

// Serve returns the reconciler that has to process the requests of this source's queue.
func (s *Source) Serve(r reconcile.Reconciler) reconcile.Reconciler {
	if s.turns == nil {
		return r
	}
	return turning{inner: r, turns: s.turns}
}

// Start implements source.Source.
func (s *Source) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	s.queue = queue
	s.mu.Unlock()
	s.feed.Subscribe(func(change Change) {
		s.feed.store.View(func(tx store.ReadTx) {
			for _, mapper := range s.mappers {
				s.add(tx, queue, mapper(tx, change))
			}
		})
	})
	return nil
}

// WaitForSync implements source.SyncingSource.
func (s *Source) WaitForSync(ctx context.Context) error {
	if err := s.feed.WaitForSync(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	queue := s.queue
	s.mu.Unlock()
	s.feed.store.View(func(tx store.ReadTx) { s.add(tx, queue, s.initial(tx)) })
	return nil
}

func (s *Source) add(
	tx store.ReadTx,
	queue workqueue.TypedRateLimitingInterface[reconcile.Request],
	requests []Request,
) {
	byPriority, _ := queue.(priorityqueue.PriorityQueue[reconcile.Request])
	for _, request := range requests {
		if s.turns != nil && !s.turns.expect(tx, &request) {
			continue
		}
		if byPriority != nil {
			byPriority.AddWithOpts(priorityqueue.AddOpts{After: request.After, Priority: &request.Priority}, request.Request)
		} else if request.After > 0 {
			queue.AddAfter(request.Request, request.After)
		} else {
			queue.Add(request.Request)
		}
	}
}
