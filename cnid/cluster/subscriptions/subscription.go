// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/reflector"
)

// subscription is a part of the API that the node follows.
type subscription struct {
	scopes []scopeKey
	shared []*sharedScope
	// confirmed reports that the VPC's row is not older than the start of following it.
	confirmed bool
	// cancel ends the confirmation.
	cancel context.CancelFunc
}

// synced reports whether the part has been read; called with Sources.mu held.
func (f *subscription) synced() bool {
	return f.confirmed && !slices.ContainsFunc(f.shared, func(scope *sharedScope) bool { return !scope.read })
}

// scopeKey names a scope: parts of one VPC have scopes in common.
type scopeKey struct {
	kind   *descriptor.Kind
	fields string
}

func keyOf(scope descriptor.Scope) scopeKey {
	key := scopeKey{kind: scope.Kind}
	if scope.Fields != nil {
		key.fields = scope.Fields.String()
	}
	return key
}

// sharedScopes are the sources of all parts, each with the number of its parts. Without
// them a VPC that several parts have would be sent as often.
type sharedScopes map[scopeKey]*sharedScope

type sharedScope struct {
	source *reflector.Source
	parts  int
	// read reports that the source has synced. Sources.report sets it.
	read bool
}

// join adds a part to a scope; start begins to follow one that no part has.
func (s sharedScopes) join(key scopeKey, start func(*sharedScope) *reflector.Source) *sharedScope {
	if s[key] == nil {
		s[key] = &sharedScope{}
		s[key].source = start(s[key])
	}
	s[key].parts++
	return s[key]
}

// leave takes a part from its scopes, and returns the sources that no part has any more.
func (s sharedScopes) leave(keys []scopeKey) (unused []*reflector.Source) {
	for _, key := range keys {
		if s[key].parts--; s[key].parts == 0 {
			unused = append(unused, s[key].source)
			delete(s, key)
		}
	}
	return unused
}

// settled reports whether there is nothing to add or remove: a part that is not needed stays
// until all that are needed have been read, because it may have rows of theirs. The channel
// is closed when that may have changed.
func (s *Sources) settled(needed map[part]bool) (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range needed {
		if s.parts[p] == nil {
			return false, s.changed.Next()
		}
	}
	return len(s.parts) == len(needed) || !s.allRead(needed), s.changed.Next()
}

// allRead reports whether all of these parts have been read; called with mu held.
func (s *Sources) allRead(needed map[part]bool) bool {
	for p := range needed {
		if f := s.parts[p]; f == nil || !f.synced() {
			return false
		}
	}
	return true
}

// adjust begins to follow new parts. Once all needed parts have been read, it stops the parts
// that nothing needs.
func (s *Sources) adjust(ctx context.Context, needed map[part]bool) {
	s.mu.Lock()
	following := slices.SortedFunc(maps.Keys(s.parts), comparePart)
	s.mu.Unlock()
	for _, p := range slices.SortedFunc(maps.Keys(needed), comparePart) {
		if slices.Contains(following, p) {
			continue
		}
		s.add(ctx, p)
		s.log.Info("following a part of the API", "part", p.String())
	}
	s.mu.Lock()
	read := s.allRead(needed)
	s.mu.Unlock()
	for _, p := range following {
		if read && !needed[p] {
			s.stop(p)
		}
	}
}

// stop waits outside of the lock, because stopping waits for the source. A part with an
// attachment stays: its record may have been written since the part was found to be unused.
// The writer of a record calls DomainSynced afterwards (decision.Decisions.Confirm).
func (s *Sources) stop(p part) {
	s.mu.Lock()
	if s.isAttached(p) {
		s.mu.Unlock()
		return
	}
	stopping := s.parts[p]
	delete(s.parts, p)
	s.reads, s.decisive = s.reads+1, s.decisive+1 // before the rows go
	unused := s.scopes.leave(stopping.scopes)
	s.mu.Unlock()
	stopping.cancel()
	for _, source := range unused {
		source.Stop()
	}
	s.broadcast()
	s.log.Info("no longer following a part of the API", "part", p.String())
}

// isAttached reports whether the journal has an attachment in a VPC.
func (s *Sources) isAttached(p part) bool {
	if !p.isCarried() {
		return false
	}
	for _, rec := range s.records.Records() {
		if rec.Carried() && rec.VPC == p.domain {
			return true
		}
	}
	return false
}

// add begins to follow a part. Before the first complete read the node has not replied
// to a roll call, and its first reply includes the parts that it follows then. A VPC
// that is added later may have been deleted, and its VNI assigned to another VPC, while
// the API server's cache has it still: so its row has to be confirmed. The UID in the
// domain of a network is never used again, and nothing of a VPC that the node does not carry
// is programmed with its VNI.
func (s *Sources) add(ctx context.Context, p part) {
	scopes := scopesOf(s.cfg.Kinds, p)
	f := &subscription{}
	confirmation, cancel := context.WithCancel(ctx)
	f.cancel = cancel
	confirmed := false
	s.report(1, func() {
		for _, scope := range scopes {
			key := keyOf(scope)
			f.scopes = append(f.scopes, key)
			f.shared = append(f.shared, s.scopes.join(key, func(shared *sharedScope) *reflector.Source {
				return s.set.Start(ctx, scope, s.onceRead(p, shared))
			}))
		}
		f.confirmed = !s.complete || !p.isCarried()
		s.parts[p] = f
		confirmed = f.confirmed
	})
	if !confirmed {
		go s.confirm(confirmation, p.domain, f)
	}
}

// onceRead returns the function to call when the source of a part's scope has synced. Addresses
// decide nothing.
func (s *Sources) onceRead(p part, scope *sharedScope) func() {
	decisive := uint64(1)
	switch p.extent {
	case descriptor.AllAddresses, descriptor.AddressesOfSubnet, descriptor.AddressesOfNodes:
		decisive = 0
	}
	return func() { s.report(decisive, func() { scope.read = true }) }
}

func comparePart(a, b part) int { return strings.Compare(a.String(), b.String()) }
