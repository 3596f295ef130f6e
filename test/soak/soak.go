// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package soak sets how much tests do. `make soak` has hours, `make test` minutes: a test
// of random steps or of large numbers makes fewer of them there.
//
// A call of Or, Only, Also, Part or Worlds is also the marker of a test: package marked finds in
// the source the tests that make one, themselves or through helpers, and `make soak` runs them.
package soak

import (
	"os"
	"testing"
)

// Variable is the environment variable that `make soak` sets to 1.
const Variable = "ALIOTH_SOAK"

// Or returns soaked where `make soak` runs the test, and otherwise anywhere else. The
// test's log has the choice.
func Or[T any](t testing.TB, soaked, otherwise T) T {
	t.Helper()
	if os.Getenv(Variable) == "1" {
		t.Logf("soaked: %v", soaked)
		return soaked
	}
	t.Logf("%v here, and %v with %s=1, as `make soak` has it", otherwise, soaked, Variable)
	return otherwise
}

// Only skips a test anywhere but in `make soak`.
func Only(t testing.TB) {
	t.Helper()
	if os.Getenv(Variable) != "1" {
		t.Skipf("a part of `make soak`: set %s=1", Variable)
	}
}

// Part skips a test as Only does. The test takes the whole machine, or very long: the target of
// make that has the name of the part runs it, and no other step of `make soak` does.
func Part(t testing.TB, _ string) {
	t.Helper()
	Only(t)
}

// Also marks a test that does the same in `make soak` as elsewhere, and runs there once more.
func Also(testing.TB) {}
