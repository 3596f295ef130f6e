// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package waits bounds the waits of tests. A limit only ends a test that would hang, so it is
// multiplied by a factor of the machine, which `make test` measures (test/lanes/machine).
package waits

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Variable is the environment variable with the factor. It is 1 where the variable is unset.
	Variable = "ALIOTH_PATIENCE"
	// Most bounds the factor, so that a test that hangs ends before the limit of its package.
	Most = 8
)

const firstPause, longestPause = time.Millisecond, 32 * time.Millisecond

// Factor returns the factor for limits. It asks the kernel's copy of the environment and not
// package os: a result in Go's cache depends on each variable that a test asks package os for. A
// test that passed within a limit passes within every longer one.
func Factor() int {
	text, _ := unix.Getenv(Variable)
	factor, err := strconv.Atoi(text)
	if err != nil {
		return 1
	}
	return min(max(factor, 1), Most)
}

// Limit returns how long a wait that takes at most limit elsewhere may take on this machine.
func Limit(limit time.Duration) time.Duration { return limit * time.Duration(Factor()) }

// Within returns a context for a wait of a test. The context outlives the test's own, so that the
// clean-up can use it.
func Within(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit(limit))
	t.Cleanup(cancel)
	return ctx
}

// fewest is the least number of checks of a condition. On a busy machine a check may take seconds,
// so that the limit is over after a few of them.
const fewest = 20

// Until calls check until it returns nil, and fails the test after the limit.
func Until(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	began, pause := time.Now(), firstPause
	for checks := 1; ; checks++ {
		err := check()
		if err == nil {
			return
		}
		if waited := time.Since(began); checks >= fewest && waited >= Limit(limit) {
			t.Fatalf("waited for %s and %d checks in vain until %s: %v", waited.Round(time.Millisecond), checks, what, err)
		}
		<-time.After(pause)
		pause = min(2*pause, longestPause)
	}
}

var errNotYet = errors.New("not so yet")

// True calls holds until it returns true, and fails the test after the limit.
func True(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	Until(t, limit, what, func() error {
		if holds() {
			return nil
		}
		return errNotYet
	})
}

// Receive returns the next value of a channel, and fails the test after the limit. A closed
// channel has the zero value.
func Receive[T any](t testing.TB, limit time.Duration, what string, from <-chan T) T {
	t.Helper()
	end := time.NewTimer(Limit(limit))
	defer end.Stop()
	select {
	case value := <-from:
		return value
	case <-end.C:
		t.Fatalf("waited for %s in vain until %s", Limit(limit), what)
		panic("unreachable")
	}
}
