// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"errors"
	"log/slog"
	"maps"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/store"
)

// Set feeds one store from any number of sources. Its methods may be called
// from any goroutine, but not within a transaction of the store.
type Set struct {
	store  *store.Store
	client client.WithWatch
	log    *slog.Logger

	// mu keeps the order of commits that of the changes to what it guards.
	mu sync.Mutex
	// covered counts the sources that hold an object.
	covered map[coverKey]int
	// refused are the writes that met a row in their way which the API no
	// longer has: of two scopes, the one with the successor may be told first.
	refused map[coverKey]write
}

type coverKey struct {
	kind string
	id   objectID
}

// NewSet returns a Set without sources. The client's scheme must know every
// kind that is asked for, see AddToScheme.
func NewSet(s *store.Store, c client.WithWatch, log *slog.Logger) *Set {
	return &Set{
		store: s, client: c, log: log,
		covered: map[coverKey]int{},
		refused: map[coverKey]write{},
	}
}

// change is what a source was told.
type change struct {
	present []client.Object
	gone    []objectID
	// restored: the objects present count even where the rows are newer.
	restored bool
}

// merge takes a change into the store, in one transaction.
func (s *Set) merge(src *Source, c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	removals := s.uncover(src, c.gone)
	writes := s.cover(src, c.present)
	if len(removals) == 0 && len(writes) == 0 {
		return
	}
	if c.restored {
		for key := range writes {
			removals = append(removals, key.id)
		}
	}
	err := s.store.Update(func(tx store.Tx) error {
		for _, id := range removals {
			src.kind.remove(tx, id)
		}
		return s.write(tx, src.kind, writes)
	})
	if err != nil {
		s.log.Error("can't write to the store", "kind", src.kind.name, "error", err)
	}
}

// uncover forgets that the source holds the objects, and returns those that no
// other source holds.
func (s *Set) uncover(src *Source, gone []objectID) []objectID {
	var last []objectID
	for _, id := range gone {
		if _, held := src.held[id]; !held {
			continue
		}
		delete(src.held, id)
		key := coverKey{src.kind.name, id}
		if s.covered[key]--; s.covered[key] > 0 {
			continue
		}
		delete(s.covered, key)
		delete(s.refused, key)
		last = append(last, id)
	}
	return last
}

// cover notes that the source holds the objects, and returns what writes their
// rows. An object that can't be converted leaves the row as it was.
func (s *Set) cover(src *Source, present []client.Object) map[coverKey]write {
	writes := make(map[coverKey]write, len(present))
	for _, obj := range present {
		put, err := src.kind.convert(obj)
		if err != nil {
			s.log.Error("object ignored", "kind", src.kind.name, "name", client.ObjectKeyFromObject(obj).String(), "error", err)
		}
		if put == nil {
			continue
		}
		id := idOf(obj)
		key := coverKey{src.kind.name, id}
		if _, held := src.held[id]; !held {
			src.held[id] = struct{}{}
			s.covered[key]++
		}
		writes[key] = put
	}
	return writes
}

// write runs the writes, and again those that were refused before and may
// succeed now. What conflicts with a row that is still there waits for the next
// change of its kind.
func (s *Set) write(tx store.Tx, k kind, writes map[coverKey]write) error {
	retry := map[coverKey]write{}
	for key, put := range s.refused {
		if key.kind == k.name {
			retry[key] = put
		}
	}
	maps.Copy(retry, writes)
	for key, put := range retry {
		err := put(tx)
		if err == nil {
			delete(s.refused, key)
			continue
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if _, again := s.refused[key]; !again {
			s.log.Warn("object waits for another one to go", "kind", k.name, "name", key.id.name, "error", err)
		}
		s.refused[key] = put
	}
	return nil
}
