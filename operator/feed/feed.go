// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package feed fills the operator's store from informers, and notifies the controllers
// of each change after the store has it.
package feed

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
)

// Change is the change of one row: Old is nil for a new row, New for a deleted one.
// Both are pointers to rows of package store, of one type.
type Change struct{ Old, New any }

// Feed connects informers with a store and subscribers. Use New.
type Feed struct {
	store *store.Store
	log   logr.Logger

	inputs  []input
	leftOut leftOut
	// filled is closed once the store has the objects that existed at first.
	filled chan struct{}

	mu          sync.RWMutex
	subscribers []func(Change)
}

// input is the informer of a kind.
type input struct {
	registration toolscache.ResourceEventHandlerRegistration
	// first has the objects that the informer lists at first.
	first *batch
}

// New returns a feed of the store that is not connected to anything yet.
func New(s *store.Store, log logr.Logger) *Feed {
	return &Feed{store: s, log: log, filled: make(chan struct{})}
}

// Store returns the store that the feed fills.
func (f *Feed) Store() *store.Store { return f.store }

// Subscribe has fn called for every change from now on, one after the other for each kind of row.
// The objects that existed at first cause no call. fn must not block.
func (f *Feed) Subscribe(fn func(Change)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribers = append(f.subscribers, fn)
}

// Connect makes the cache watch the kinds. It may be called once, before the cache is started.
func (f *Feed) Connect(ctx context.Context, informers cache.Cache, watched []*descriptor.Kind) error {
	for _, kind := range watched {
		informer, err := informers.GetInformer(ctx, kind.NewObject(), cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind.Name, err)
		}
		first := &batch{feed: f, kind: kind}
		registration, err := informer.AddEventHandler(f.handler(kind, first))
		if err != nil {
			return fmt.Errorf("handle %s: %w", kind.Name, err)
		}
		f.inputs = append(f.inputs, input{registration, first})
	}
	return nil
}

// Fill brings the objects that exist at first into the store, in the order of the kinds that are
// watched. It returns once that is done, or when ctx ends.
func (f *Feed) Fill(ctx context.Context) {
	for _, in := range f.inputs {
		if !toolscache.WaitForCacheSync(ctx.Done(), in.registration.HasSynced) {
			return
		}
		in.first.flush()
	}
	close(f.filled)
}

// Synced reports whether everything that existed when the cache was started is
// in the store.
func (f *Feed) Synced() bool {
	select {
	case <-f.filled:
		return true
	default:
		return false
	}
}

// WaitForSync blocks until Synced or until ctx ends.
func (f *Feed) WaitForSync(ctx context.Context) error {
	select {
	case <-f.filled:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the store to be filled: %w", ctx.Err())
	}
}

func (f *Feed) handler(kind *descriptor.Kind, first *batch) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, inFirstList bool) {
			if inFirstList {
				first.add(take(kind, obj))
				return
			}
			first.flush()
			f.put(kind, take(kind, obj))
		},
		UpdateFunc: func(before, obj any) { first.flush(); f.replace(kind, take(kind, before), take(kind, obj)) },
		DeleteFunc: func(obj any) { first.flush(); f.remove(kind, take(kind, obj)) },
	}
}

// replace handles an update. If the object was deleted and created again between two looks at the
// API, the informer reports just an update.
func (f *Feed) replace(kind *descriptor.Kind, before, after *kept) {
	if before != nil && after != nil && before.id.UID != after.id.UID {
		f.remove(kind, before)
	}
	f.put(kind, after)
}

func (f *Feed) put(kind *descriptor.Kind, object *kept) {
	if object == nil {
		return
	}
	if object.err != nil {
		f.refuse(kind, object, object.err)
		return
	}
	change, err := f.write(kind, object.id, object.row)
	if err != nil {
		f.refuse(kind, object, err)
		return
	}
	f.leftOut.forget(kind, object.id)
	f.Publish(change)
}

// refuse leaves the row of an object as it is. Either the API does not allow such an object, or the
// event for the deletion of the conflicting object is still to come.
func (f *Feed) refuse(kind *descriptor.Kind, object *kept, err error) {
	f.log.Error(
		err,
		"object not taken into the store",
		"kind",
		kind.Name,
		"name",
		object.id.Name,
		"namespace",
		object.id.Namespace,
	)
	one := descriptor.NewLeftOut(kind, object.id, err)
	one.Deleting = object.deleting
	f.leftOut.add(one)
}

func (f *Feed) remove(kind *descriptor.Kind, object *kept) {
	if object == nil {
		return
	}
	f.leftOut.forget(kind, object.id)
	change, err := f.write(kind, object.id, nil)
	if err != nil {
		f.log.Error(err, "object not removed from the store", "name", object.id.Name, "namespace", object.id.Namespace)
		return
	}
	f.Publish(change)
}

// write puts the row of an object, or removes the object's row if row is nil. The store
// may keep a row in place of the removed one.
func (f *Feed) write(kind *descriptor.Kind, id descriptor.ID, row any) (change Change, err error) {
	err = f.store.Update(func(tx store.Tx) error {
		change.Old = kind.Get(tx, id)
		var err error
		if row == nil {
			err = kind.Delete(tx, id)
		} else {
			err = kind.Put(tx, row)
		}
		change.New = kind.Get(tx, id)
		return err
	})
	return change, err
}

// Publisher notifies controllers of changes without an event of the API, such as rows that
// are deleted from the store before the watch event. A Feed is one.
type Publisher interface{ Publish(change Change) }

// Publish notifies the subscribers of a change, also of one without an informer event:
// the change of a row that was in the store ahead of the API.
func (f *Feed) Publish(change Change) {
	if change.Old == nil && change.New == nil {
		return
	}
	f.mu.RLock()
	subscribers := f.subscribers
	f.mu.RUnlock()
	for _, fn := range subscribers {
		fn(change)
	}
}
