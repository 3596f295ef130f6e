// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"os"
	"testing"
)

// Variable is the environment variable that a bench sets to 1 for the tests that measure.
const Variable = "ALIOTH_FIGURES"

// Wanted skips a test that measures, unless a bench runs it.
func Wanted(t testing.TB) {
	t.Helper()
	if os.Getenv(Variable) != "1" {
		t.Skipf("measures for make bench, which sets %s=1", Variable)
	}
}
