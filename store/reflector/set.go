// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kube"
)

// Set feeds one store from any number of sources. Its methods may be called
// from any goroutine, but not within a transaction of the store.
type Set struct {
	store *store.Store
	api   *kube.Client
	log   *slog.Logger
	// lists has an element for each list that is under way.
	lists chan struct{}

	// mu keeps the order of commits that of the changes to what it guards.
	mu sync.Mutex
	// covered counts the sources that hold an object.
	covered map[coverKey]int
	// refused are the writes that met a row in their way which the API no
	// longer has: of two scopes, the one with the successor may be told first.
	refused map[coverKey]write
	// complained has when a failure of a kind's sources was logged last.
	complained map[string]time.Time
}

const (
	// listsAtOnce bounds how many sources list at the same time: a node that
	// starts may have a thousand, and what is being read takes memory.
	listsAtOnce = 32
	// complainEvery is how often a failure of a kind's sources is logged: all of
	// them fail together, and try again for as long as it takes.
	complainEvery = 10 * time.Second
)

type coverKey struct {
	kind string
	id   objectID
}

// NewSet returns a Set without sources. The client's scheme must know every
// kind that is asked for, see kinds.AddToScheme.
func NewSet(s *store.Store, api *kube.Client, log *slog.Logger) *Set {
	return &Set{
		store: s, api: api, log: log, lists: make(chan struct{}, listsAtOnce),
		covered:    map[coverKey]int{},
		refused:    map[coverKey]write{},
		complained: map[string]time.Time{},
	}
}

// beginList waits until one more source may list; endList follows unless it fails.
func (s *Set) beginList(ctx context.Context) error {
	select {
	case s.lists <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Set) endList() { <-s.lists }

// complain logs why a source of a kind fails, unless one did a moment ago.
func (s *Set) complain(kind string, err error) {
	s.mu.Lock()
	last := s.complained[kind]
	due := time.Since(last) >= complainEvery
	if due {
		s.complained[kind] = time.Now()
	}
	s.mu.Unlock()
	if due {
		s.log.Warn("can't follow a part of the API; trying again", "kind", kind, "error", err)
	}
}

// change is what a source was told.
type change struct {
	present []entry
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
// rows.
func (s *Set) cover(src *Source, present []entry) map[coverKey]write {
	writes := make(map[coverKey]write, len(present))
	for _, e := range present {
		if e.put == nil {
			continue
		}
		key := coverKey{src.kind.name, e.id}
		if _, held := src.held[e.id]; !held {
			src.held[e.id] = struct{}{}
			s.covered[key]++
		}
		writes[key] = e.put
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
