// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"sync"
)

// locks is a set of locks by container ID. A lock without holder and waiters is removed.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

// lock is taken by sending to the channel, which has a buffer of one.
type lock struct {
	taken chan struct{}
	// users hold it or wait for it.
	users int
}

// acquire takes the lock, or returns the error of ctx.
func (l *locks) acquire(ctx context.Context, id string) (release func(), err error) {
	one := l.join(id)
	select {
	case one.taken <- struct{}{}:
		return func() { <-one.taken; l.leave(id, one) }, nil
	case <-ctx.Done():
		l.leave(id, one)
		return nil, ctx.Err()
	}
}

// try takes the lock if it is free.
func (l *locks) try(id string) (release func(), ok bool) {
	one := l.join(id)
	select {
	case one.taken <- struct{}{}:
		return func() { <-one.taken; l.leave(id, one) }, true
	default:
		l.leave(id, one)
		return nil, false
	}
}

func (l *locks) join(id string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.held[id]
	if one == nil {
		one = &lock{taken: make(chan struct{}, 1)}
		l.held[id] = one
	}
	one.users++
	return one
}

func (l *locks) leave(id string, one *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(l.held, id)
	}
}
