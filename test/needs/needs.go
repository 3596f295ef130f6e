// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package needs has the one rule for tests that need more than Go. `make test-fast` leaves these
// tests out, wherever it runs, and counts them by their needs. Other runs leave them out only where
// the machine lacks the thing.
package needs

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Variable is the environment variable that `make test-fast` sets to 1.
const Variable = "ALIOTH_FAST"

// Things that tests need besides Go.
const (
	root  = "root"
	built = "Kubernetes and Helm"
)

// fast reports whether `make test-fast` runs the test.
func fast() bool { return os.Getenv(Variable) == "1" }

// Root skips a test that needs root in `make test-fast`, and for other users. why completes the
// sentence, such as "to make network namespaces".
func Root(t testing.TB, why string) {
	t.Helper()
	if fast() || os.Geteuid() != 0 {
		t.Skip(reason(root, why))
	}
}

// Kubernetes skips a test in `make test-fast` that needs a real API server or Helm. Other runs
// build the programs that the cache lacks.
func Kubernetes(t testing.TB) {
	t.Helper()
	if fast() {
		t.Skip(reason(built, "which other targets build"))
	}
}

// Undeclared is the error of a program that a test asks for in `make test-fast`, although the
// test has not called [Kubernetes].
func Undeclared() error {
	if !fast() {
		return nil
	}
	return fmt.Errorf("%s=1 leaves out tests that need %s: call needs.Kubernetes(t) first in the test", Variable, built)
}

// prefix begins each reason.
const prefix = "needs "

func reason(thing, why string) string { return prefix + thing + ", " + why }

// Of returns the thing that a skipped test needs. ok is true if the reason of the skip begins like
// a reason of this package.
func Of(reason string) (thing string, ok bool) {
	rest, ok := strings.CutPrefix(reason, prefix)
	if at := strings.IndexAny(rest, ",:"); at >= 0 {
		rest = rest[:at]
	}
	return rest, ok && rest != ""
}
