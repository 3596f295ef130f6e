// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/store/descriptor"
)

// batchSize is how many objects of a first list share a transaction, which takes a third of
// the time of one transaction each (docs/design/140).
const batchSize = 256

// batch collects objects that existed when the informer of a kind was started.
type batch struct {
	feed *Feed
	kind *descriptor.Kind

	// mu is held while objects are written too: what comes after them must find them.
	mu      sync.Mutex
	waiting []client.Object
}

// add takes an object, and writes all that wait once they are many.
func (b *batch) add(obj any) {
	object, ok := obj.(client.Object)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, object)
	if len(b.waiting) >= batchSize {
		b.write()
	}
}

// flush writes all that wait.
func (b *batch) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write()
}

// write writes all that wait, with mu held. Where one of them can't be taken, the others are.
func (b *batch) write() {
	objects := b.waiting
	b.waiting = nil
	if len(objects) == 0 {
		return
	}
	changes, err := b.feed.putAll(b.kind, objects...)
	if err == nil {
		b.feed.publishAll(changes)
		return
	}
	for _, object := range objects {
		b.feed.put(b.kind, object)
	}
}
