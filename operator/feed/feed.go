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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/descriptor"
)

// Change is the change of one row: Old is nil for a new row, New for a deleted one.
// Both are pointers to rows of package store, of one type.
type Change struct{ Old, New any }

// Feed connects informers with a store and subscribers. Use New.
type Feed struct {
	store *store.Store
	log   logr.Logger

	mu            sync.RWMutex
	subscribers   []func(Change)
	registrations []toolscache.ResourceEventHandlerRegistration
	// first has what each informer lists at first.
	first []*batch
}

// New returns a feed of the store that is not connected to anything yet.
func New(s *store.Store, log logr.Logger) *Feed {
	return &Feed{store: s, log: log}
}

// Store returns the store that the feed fills.
func (f *Feed) Store() *store.Store { return f.store }

// Subscribe has fn called for every change from now on, one after the other for
// each kind of row. It must not block.
func (f *Feed) Subscribe(fn func(Change)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribers = append(f.subscribers, fn)
}

// Connect makes the cache watch the kinds. It may be called before the cache is
// started.
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
		f.mu.Lock()
		f.registrations = append(f.registrations, registration)
		f.first = append(f.first, first)
		f.mu.Unlock()
	}
	return nil
}

// Synced reports whether everything that existed when the cache was started is
// in the store.
func (f *Feed) Synced() bool {
	f.mu.RLock()
	registrations, batches := f.registrations, f.first
	f.mu.RUnlock()
	for _, registration := range registrations {
		if !registration.HasSynced() {
			return false
		}
	}
	for _, first := range batches {
		first.flush()
	}
	return len(registrations) > 0
}

// WaitForSync blocks until Synced or until ctx ends.
func (f *Feed) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), f.Synced) {
		return fmt.Errorf("wait for the store to be filled: %w", ctx.Err())
	}
	return nil
}

func (f *Feed) handler(kind *descriptor.Kind, first *batch) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, inFirstList bool) {
			if inFirstList {
				first.add(obj)
				return
			}
			first.flush()
			f.put(kind, obj)
		},
		UpdateFunc: func(before, obj any) { first.flush(); f.replace(kind, before, obj) },
		DeleteFunc: func(obj any) { first.flush(); f.remove(kind, obj) },
	}
}

// replace handles an update. Where the object was deleted and created again
// between two looks at the API, the informer reports just an update.
func (f *Feed) replace(kind *descriptor.Kind, before, after any) {
	old, ok := before.(client.Object)
	if next, isObject := after.(client.Object); ok && isObject && old.GetUID() != next.GetUID() {
		f.remove(kind, old)
	}
	f.put(kind, after)
}

func (f *Feed) put(kind *descriptor.Kind, obj any) {
	object, ok := obj.(client.Object)
	if !ok {
		return
	}
	changes, err := f.putAll(kind, object)
	if err != nil {
		// The row does not change. Either the API allows no such object, or the event
		// for the deletion of the conflicting object is still to come.
		f.log.Error(err, "object not taken into the store", "name", object.GetName(), "namespace", object.GetNamespace())
		return
	}
	f.publishAll(changes)
}

func (f *Feed) publishAll(changes []Change) {
	for _, change := range changes {
		f.Publish(change)
	}
}

// putAll puts the rows of objects of one kind in one transaction: of all or, with an error,
// of none.
func (f *Feed) putAll(kind *descriptor.Kind, objects ...client.Object) (changes []Change, err error) {
	err = f.store.Update(func(tx store.Tx) error {
		for _, object := range objects {
			row, err := kind.Row(object)
			if err != nil {
				return err
			}
			change, err := write(tx, kind, descriptor.IDOf(object), row)
			if err != nil {
				return err
			}
			changes = append(changes, change)
		}
		return nil
	})
	return changes, err
}

func (f *Feed) remove(kind *descriptor.Kind, obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	object, ok := obj.(client.Object)
	if !ok {
		return
	}
	var change Change
	err := f.store.Update(func(tx store.Tx) (err error) {
		change, err = write(tx, kind, descriptor.IDOf(object), nil)
		return err
	})
	if err != nil {
		f.log.Error(err, "object not removed from the store", "name", object.GetName(), "namespace", object.GetNamespace())
		return
	}
	f.Publish(change)
}

// write puts the row of an object, or removes the object's row if row is nil. The store
// may keep a row in place of the removed one.
func write(tx store.Tx, kind *descriptor.Kind, id descriptor.ID, row any) (Change, error) {
	change := Change{Old: kind.Get(tx, id)}
	var err error
	if row == nil {
		err = kind.Delete(tx, id)
	} else {
		err = kind.Put(tx, row)
	}
	change.New = kind.Get(tx, id)
	return change, err
}

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
