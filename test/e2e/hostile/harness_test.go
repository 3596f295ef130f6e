// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"os"
	"testing"

	"github.com/alioth-net/alioth/test/e2e/stage"
)

// suite is all tests of this package, on one lab.
var suite = stage.NewSuite("hostile", "../../..")

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// env is the environment of every test.
type env struct{ *stage.Env }

// start returns the shared lab, or fails the test; see stage.Suite.Start.
func start(t *testing.T) *env {
	t.Helper()
	return &env{suite.Start(t)}
}
