// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"sync"

	"github.com/alioth-net/alioth/store/descriptor"
)

// leftOut has the objects that the store does not have as the API has them.
type leftOut struct {
	mu   sync.Mutex
	list map[objectKey]descriptor.LeftOut
	// notify are called for each object that is newly left out, or for another cause, or that
	// is being deleted now.
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

// forget notes that an object is in the store as the API has it, or gone from the API.
func (l *leftOut) forget(kind *descriptor.Kind, id descriptor.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.list, objectKey{kind.Name, id})
}

// OnLeftOut has fn called for each object that the store does not have as the API has it:
// for those that are left out already, and for later ones. fn must not block, and may be
// called twice for one object.
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
