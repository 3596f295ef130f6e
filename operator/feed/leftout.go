// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"sync"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
)

// leftOut has the objects that the store does not have as the API has them.
type leftOut struct {
	mu   sync.Mutex
	list map[objectKey]descriptor.LeftOut
	// notify has the functions to call for each object that is newly left out, that is left out for
	// another cause, or that is being deleted now.
	notify []func(descriptor.LeftOut)
}

type objectKey struct {
	kind string
	descriptor.ID
}

// add notes an object that is left out.
func (l *leftOut) add(one descriptor.LeftOut) {
	key := objectKey{one.Kind.Name, one.ID}
	l.mu.Lock()
	if l.list == nil {
		l.list = map[objectKey]descriptor.LeftOut{}
	}
	same := l.list[key] == one
	l.list[key] = one
	notify := l.notify
	l.mu.Unlock()
	if same {
		return
	}
	for _, fn := range notify {
		fn(one)
	}
}

// forget notes that the store has an object as the API has it, or that the API no longer has the
// object.
func (l *leftOut) forget(kind *descriptor.Kind, id descriptor.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.list, objectKey{kind.Name, id})
}

// OnLeftOut has fn called for each object that the store does not have as the API has it: for
// objects that are left out already, and for later ones. fn must not block, and may be called twice
// for one object.
func (f *Feed) OnLeftOut(fn func(descriptor.LeftOut)) {
	f.leftOut.mu.Lock()
	f.leftOut.notify = append(f.leftOut.notify, fn)
	f.leftOut.mu.Unlock()
	for _, one := range f.LeftOut() {
		fn(one)
	}
}

// LeftOut returns the objects that the store does not have as the API has them.
func (f *Feed) LeftOut() []descriptor.LeftOut {
	f.leftOut.mu.Lock()
	defer f.leftOut.mu.Unlock()
	list := make([]descriptor.LeftOut, 0, len(f.leftOut.list))
	for _, one := range f.leftOut.list {
		list = append(list, one)
	}
	return list
}

// Row returns the row of an object, nil if the object is left out. An object that is being deleted
// may go even if it contradicts itself.
func Row[O kube.Object, R any](kind descriptor.Of[O, R], object O) *R {
	row, err := kind.Convert(object)
	if err != nil || row == nil || kind.Check(row) != nil && object.GetDeletionTimestamp() == nil {
		return nil
	}
	return row
}

// Leaving returns the objects of a kind that are left out and are being deleted, as requests to the
// controller of the kind. The store has no event of them, and their finalizer has to go.
func (f *Feed) Leaving(kind *descriptor.Kind) (all []Request) {
	for _, one := range f.LeftOut() {
		all = append(all, leaving(&one, kind)...)
	}
	return all
}

// OnLeaving requests them as they come.
func OnLeaving(kind *descriptor.Kind) Mapper {
	return On(func(_ store.ReadTx, _, now *descriptor.LeftOut) []Request { return leaving(now, kind) })
}

func leaving(one *descriptor.LeftOut, kind *descriptor.Kind) []Request {
	if one == nil || !one.Deleting || one.Kind != kind {
		return nil
	}
	return []Request{Now(one.Namespace, one.Name)}
}
