// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"os"
	"testing"
)

// soakVariable is set to 1 by `make soak`.
const soakVariable = "ALIOTH_SOAK"

// Soaked returns what is longer or larger by nature where `make soak` runs a test,
// and otherwise what `make test` has time for. The test's log has which it was.
func Soaked[T any](t *testing.T, soaked, otherwise T) T {
	t.Helper()
	if os.Getenv(soakVariable) == "1" {
		t.Logf("soaked: %v", soaked)
		return soaked
	}
	t.Logf("%v here, and %v with %s=1, as `make soak` has it", otherwise, soaked, soakVariable)
	return otherwise
}
