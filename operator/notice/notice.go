// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package notice remembers which refusals of an object were reported, so that each is
// one event, however often a controller examines the object.
package notice

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/store/tenancy"
)

// Board has the last refusals of each object. The zero value is empty. It needs no
// persistence: after a restart all events are written once more.
type Board struct {
	mu   sync.Mutex
	last map[types.NamespacedName]entry
}

// entry is what was reported of an object with one UID.
type entry struct {
	uid      string
	refusals []tenancy.Refusal
}

// News stores the refusals of an object, and returns those that the object of this UID did
// not have before. Refusals that are nil do not count.
func (b *Board) News(name types.NamespacedName, uid string, refusals ...*tenancy.Refusal) []tenancy.Refusal {
	now := entry{uid: uid}
	for _, refusal := range refusals {
		if refusal != nil {
			now.refusals = append(now.refusals, *refusal)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.last[name]
	if len(now.refusals) == 0 {
		delete(b.last, name)
		return nil
	}
	if b.last == nil {
		b.last = map[types.NamespacedName]entry{}
	}
	b.last[name] = now
	return slices.DeleteFunc(slices.Clone(now.refusals), func(refusal tenancy.Refusal) bool {
		return before.uid == uid && slices.Contains(before.refusals, refusal)
	})
}

// Names returns the objects with refusals, in no order.
func (b *Board) Names() []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := make([]types.NamespacedName, 0, len(b.last))
	for name := range b.last {
		names = append(names, name)
	}
	return names
}
