// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
)

// Set feeds one store from any number of sources. Its methods may be called
// from any goroutine, but not within a transaction of the store.
type Set struct {
	store *store.Store
	api   *kube.Client
	log   *slog.Logger
	// lists has an element for each list that is under way.
	lists chan struct{}

	// mu keeps commits in the order of the changes to the fields below.
	mu sync.Mutex
	// covered counts the sources that hold an object.
	covered map[coverKey]int
	// refused are the rows that conflict with a row that the API no longer has: of two
	// scopes, the one with the successor may get its event first.
	refused map[coverKey]waiting
	// unread are the objects without a row of their present content.
	unread map[coverKey]*unread
	// complained has when a failure of a kind's sources was logged last.
	complained map[string]time.Time
	// seen has the newest version that a source has read, by kind.
	seen map[string]string
}

const (
	// listsAtOnce limits how many sources list at the same time: a starting node may
	// have a thousand sources, and each list needs memory.
	listsAtOnce = 32
	// complainEvery limits how often a failure of a kind's sources is logged: they
	// fail together, and retry without limit.
	complainEvery = 10 * time.Second
)

type coverKey struct {
	kind string
	id   descriptor.ID
}

// NewSet returns a Set without sources. The client's scheme must contain every kind
// of its sources, see kinds.AddToScheme.
func NewSet(s *store.Store, api *kube.Client, log *slog.Logger) *Set {
	return &Set{
		store: s, api: api, log: log, lists: make(chan struct{}, listsAtOnce),
		covered:    map[coverKey]int{},
		refused:    map[coverKey]waiting{},
		unread:     map[coverKey]*unread{},
		complained: map[string]time.Time{},
		seen:       map[string]string{},
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

// complain logs the failure of a source, at most once per kind and complainEvery.
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

// see notes that a source has read its kind up to a version.
func (s *Set) see(kind, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(version, s.seen[kind]); s.seen[kind] == "" ||
		err == nil && order > 0 {
		s.seen[kind] = version
	}
}

// newest returns the newest version of a kind that a source has read up to, "" for none.
func (s *Set) newest(kind string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[kind]
}

// change is an event of a source.
type change struct {
	present []entry
	gone    []descriptor.ID
	// restored: the objects replace rows even if the rows are newer.
	restored bool
}

// merge applies a change to the store, in one transaction.
func (s *Set) merge(src *Source, c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	removals := s.uncover(src, c.gone)
	rows := s.cover(src, c.present)
	s.noteUnread(src, c.present)
	if len(removals) == 0 && len(rows) == 0 {
		return
	}
	if c.restored {
		for key := range rows {
			removals = append(removals, key.id)
		}
	}
	err := s.store.Update(func(tx store.Tx) error {
		for _, id := range removals {
			if err := src.scope.Kind.Delete(tx, id); err != nil {
				return err
			}
		}
		return s.write(tx, src.scope.Kind, rows)
	})
	if err != nil {
		s.log.Error(
			"can't write all of a change to the store; writing each object by itself",
			"kind",
			src.scope.Kind.Name,
			"error",
			err,
		)
		s.writeEach(src.scope.Kind, removals, rows)
	}
}

// uncover removes objects from the source's held objects, and returns the objects that no other
// source holds.
func (s *Set) uncover(src *Source, gone []descriptor.ID) []descriptor.ID {
	var last []descriptor.ID
	for _, id := range gone {
		s.forgetUnread(src, id)
		if _, held := src.held[id]; !held {
			continue
		}
		delete(src.held, id)
		key := coverKey{src.scope.Kind.Name, id}
		if s.covered[key]--; s.covered[key] > 0 {
			continue
		}
		delete(s.covered, key)
		delete(s.refused, key)
		last = append(last, id)
	}
	return last
}

// cover notes that the source holds the objects, and returns their rows.
func (s *Set) cover(src *Source, present []entry) map[coverKey]any {
	rows := make(map[coverKey]any, len(present))
	for _, e := range present {
		if e.row == nil {
			continue
		}
		key := coverKey{src.scope.Kind.Name, e.id}
		if _, held := src.held[e.id]; !held {
			src.held[e.id] = struct{}{}
			s.covered[key]++
		}
		rows[key] = e.row
	}
	return rows
}

// write puts the rows, and retries the rows that were refused before. A row that
// conflicts with an existing row waits for the next change of its kind.
func (s *Set) write(tx store.Tx, kind *descriptor.Kind, rows map[coverKey]any) error {
	retry := map[coverKey]any{}
	for key, held := range s.refused {
		if key.kind == kind.Name {
			retry[key] = held.row
		}
	}
	maps.Copy(retry, rows)
	for _, key := range inOrder(retry) {
		err := kind.Put(tx, retry[key])
		if err == nil {
			delete(s.refused, key)
			continue
		}
		if !isConflict(err) {
			return err
		}
		s.await(kind, key, retry[key], err)
	}
	return nil
}
