// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Board remembers the last refusals of each object that were reported, so that each is one
// event, however often a controller examines the object. The zero value is empty. It needs no
// persistence: after a restart all events are written once more.
type Board struct {
	mu sync.Mutex
	// last is by namespace and name.
	last map[string]map[string]entry
}

// entry has the refusals that were reported of an object with one UID.
type entry struct {
	uid      string
	refusals []tenancy.Refusal
}

// News stores the refusals of an object, and returns the ones that the object with this UID did not
// have before. Refusals that are nil do not count.
func (b *Board) News(name types.NamespacedName, uid string, refusals ...*tenancy.Refusal) []tenancy.Refusal {
	now := entry{uid: uid}
	for _, refusal := range refusals {
		if refusal != nil {
			now.refusals = append(now.refusals, *refusal)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.last[name.Namespace][name.Name]
	if len(now.refusals) == 0 {
		b.forget(name)
		return nil
	}
	b.put(name, now)
	return slices.DeleteFunc(slices.Clone(now.refusals), func(refusal tenancy.Refusal) bool {
		return before.uid == uid && slices.Contains(before.refusals, refusal)
	})
}

// put stores an entry, with mu held.
func (b *Board) put(name types.NamespacedName, one entry) {
	if b.last == nil {
		b.last = map[string]map[string]entry{}
	}
	if b.last[name.Namespace] == nil {
		b.last[name.Namespace] = map[string]entry{}
	}
	b.last[name.Namespace][name.Name] = one
}

// forget drops the entry of an object, with mu held.
func (b *Board) forget(name types.NamespacedName) {
	delete(b.last[name.Namespace], name.Name)
	if len(b.last[name.Namespace]) == 0 {
		delete(b.last, name.Namespace)
	}
}

// Namespaces returns the namespaces of objects with refusals, in no order.
func (b *Board) Namespaces() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.last))
}

// In returns the names of the objects of a namespace with refusals, unordered.
func (b *Board) In(namespace string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.last[namespace]))
}
