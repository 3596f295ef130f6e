// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package keylock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func TestKeyLock_OneKey_ExclusiveThenForgotten(t *testing.T) {
	l := New()
	var wg sync.WaitGroup
	inside, most := 0, 0
	for range 50 {
		wg.Go(func() {
			release, err := l.Acquire(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			inside++ // guarded by the lock itself
			most = max(most, inside)
			inside--
			release()
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d were inside at a time", most)
	}
	if len(l.held) != 0 {
		t.Errorf("%d locks are kept", len(l.held))
	}
}

func TestKeyLock_OtherContainer_Free(t *testing.T) {
	l := New()
	release, err := l.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if other, ok := l.Try("b"); !ok {
		t.Error("b is taken")
	} else {
		other()
	}
	if _, ok := l.Try("a"); ok {
		t.Error("a is free")
	}
	release()
	if again, ok := l.Try("a"); !ok {
		t.Error("a is taken after it was released")
	} else {
		again()
	}
}

func TestKeyLock_Held_WaitBounded(t *testing.T) {
	l := New()
	release, err := l.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	release()
	if len(l.held) != 0 {
		t.Errorf("%d locks are kept", len(l.held))
	}
}

func TestKeyLock_ContextEnded_FreeLockNotGiven(t *testing.T) {
	l := New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // a select would take it in half of them
		if _, err := l.Acquire(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	if len(l.held) != 0 {
		t.Errorf("%d locks are kept", len(l.held))
	}
}
