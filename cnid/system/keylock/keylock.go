// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keylock has locks by key, for work on one thing at a time.
package keylock

import (
	"context"
	"sync"
)

// Locks is a set of locks by key. A lock without holder and waiters is removed.
type Locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

// New returns a set of locks.
func New() *Locks { return &Locks{held: map[string]*lock{}} }

// lock is taken by sending to the channel, which has a buffer of one.
type lock struct {
	taken chan struct{}
	// users hold it or wait for it.
	users int
}

// Acquire takes the lock, or returns the error of ctx. Once ctx has ended, it does not take
// even a free lock: so a caller that ends the context of an ADD, and then takes the lock,
// knows that the ADD changes nothing any more.
func (l *Locks) Acquire(ctx context.Context, key string) (release func(), err error) {
	one := l.join(key)
	select {
	case one.taken <- struct{}{}:
	case <-ctx.Done():
		l.leave(key, one)
		return nil, ctx.Err()
	}
	release = func() { <-one.taken; l.leave(key, one) }
	if err := ctx.Err(); err != nil { // of two cases that are ready, select takes any
		release()
		return nil, err
	}
	return release, nil
}

// Try takes the lock if it is free.
func (l *Locks) Try(key string) (release func(), ok bool) {
	one := l.join(key)
	select {
	case one.taken <- struct{}{}:
		return func() { <-one.taken; l.leave(key, one) }, true
	default:
		l.leave(key, one)
		return nil, false
	}
}

func (l *Locks) join(key string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.held[key]
	if one == nil {
		one = &lock{taken: make(chan struct{}, 1)}
		l.held[key] = one
	}
	one.users++
	return one
}

func (l *Locks) leave(key string, one *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(l.held, key)
	}
}
