// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"errors"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
)

// unread is an object that can't be read, or whose row contradicts itself. An earlier row of
// the object stays as it was.
type unread struct {
	descriptor.LeftOut
	// sources have the object in their scopes.
	sources map[*Source]bool
}

// waiting is a row that conflicts with another one.
type waiting struct {
	row any
	descriptor.LeftOut
}

// noteUnread notes which of the objects that a source has read are left out.
func (s *Set) noteUnread(src *Source, present []entry) {
	for _, e := range present {
		key := coverKey{src.scope.Kind.Name, e.id}
		if e.err == nil {
			delete(s.unread, key)
			continue
		}
		held := s.unread[key]
		if held == nil {
			held = &unread{sources: map[*Source]bool{}}
			s.unread[key] = held
		}
		held.LeftOut, held.sources[src] = descriptor.NewLeftOut(src.scope.Kind, e.id, e.err), true
	}
}

// forgetUnread notes that a source has an object no longer.
func (s *Set) forgetUnread(src *Source, id descriptor.ID) {
	key := coverKey{src.scope.Kind.Name, id}
	held := s.unread[key]
	if held == nil {
		return
	}
	if delete(held.sources, src); len(held.sources) == 0 {
		delete(s.unread, key)
	}
}

// unreadBy returns the objects that a source has and that are left out.
func (s *Set) unreadBy(src *Source) []descriptor.ID {
	var list []descriptor.ID
	for key, held := range s.unread {
		if held.sources[src] {
			list = append(list, key.id)
		}
	}
	return list
}

// await keeps a row that the store can't take until the next change of its kind.
func (s *Set) await(kind *descriptor.Kind, key coverKey, row any, err error) {
	if _, again := s.refused[key]; !again {
		s.log.Warn(
			"object waits for another one to go",
			"kind",
			kind.Name,
			"namespace",
			key.id.Namespace,
			"name",
			key.id.Name,
			"error",
			err,
		)
	}
	s.refused[key] = waiting{row, descriptor.NewLeftOut(kind, key.id, err)}
}

// writeEach writes removals and rows one by one, after they could not be written together: a row
// that can't be written concerns no other object.
func (s *Set) writeEach(kind *descriptor.Kind, removals []descriptor.ID, rows map[coverKey]any) {
	for _, id := range removals {
		if err := s.store.Update(func(tx store.Tx) error { return kind.Delete(tx, id) }); err != nil {
			s.log.Error(
				"can't remove a row from the store",
				"kind",
				kind.Name,
				"namespace",
				id.Namespace,
				"name",
				id.Name,
				"error",
				err,
			)
		}
	}
	for _, key := range inOrder(rows) {
		err := s.store.Update(func(tx store.Tx) error { return kind.Put(tx, rows[key]) })
		if err != nil {
			s.await(kind, key, rows[key], err)
			continue
		}
		delete(s.refused, key)
	}
}

// inOrder returns the keys of rows by namespace and name: of two rows that conflict the same
// one is always first.
func inOrder(rows map[coverKey]any) []coverKey {
	keys := make([]coverKey, 0, len(rows))
	for key := range rows {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b coverKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), compareIDs(a.id, b.id))
	})
	return keys
}

func compareIDs(a, b descriptor.ID) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// LeftOut returns the objects whose rows in the store differ from the API, by kind, namespace and
// name.
func (s *Set) LeftOut() []descriptor.LeftOut {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []descriptor.LeftOut
	for _, held := range s.unread {
		list = append(list, held.LeftOut)
	}
	for _, held := range s.refused {
		list = append(list, held.LeftOut)
	}
	slices.SortFunc(list, func(a, b descriptor.LeftOut) int {
		return cmp.Or(cmp.Compare(a.Kind.Name, b.Kind.Name), compareIDs(a.ID, b.ID))
	})
	return list
}

func isConflict(err error) bool { return errors.Is(err, store.ErrConflict) }
