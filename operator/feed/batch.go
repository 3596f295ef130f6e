// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"cmp"
	"slices"
	"sync"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
)

// batchSize is how many objects of a first list share a transaction. One transaction each
// takes three times as long, and larger ones save little (docs/design/140).
const batchSize = 256

// batch collects the objects of a kind that existed when its informer was started.
type batch struct {
	feed *Feed
	kind *descriptor.Kind

	// mu is held while objects are written too: what comes after them must find them.
	mu      sync.Mutex
	waiting []*kept
}

// add takes an object.
func (b *batch) add(object *kept) {
	if object == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, object)
}

// flush writes all that wait, by name: neighbours share most of the store's indexes, and an
// informer lists objects at random. That halves the time (docs/design/140).
func (b *batch) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	objects := b.waiting
	b.waiting = nil
	slices.SortFunc(objects, func(x, y *kept) int {
		return cmp.Or(cmp.Compare(x.id.Namespace, y.id.Namespace), cmp.Compare(x.id.Name, y.id.Name))
	})
	for part := range slices.Chunk(objects, batchSize) {
		b.write(part)
	}
}

// write writes objects, with mu held. Where one of them can't be taken, the others are.
func (b *batch) write(objects []*kept) {
	if err := b.put(objects...); err == nil {
		return
	}
	for _, object := range objects {
		if err := b.put(object); err != nil {
			b.feed.refuse(b.kind, object, err)
		}
	}
}

// put puts the rows of objects in one transaction: of all or, with an error, of none.
func (b *batch) put(objects ...*kept) error {
	return b.feed.store.Update(func(tx store.Tx) error {
		for _, object := range objects {
			if object.err != nil {
				return object.err
			}
			if object.row == nil {
				continue // there was none before
			}
			if err := b.kind.Put(tx, object.row); err != nil {
				return err
			}
		}
		return nil
	})
}
