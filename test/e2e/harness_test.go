// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/e2e/stage"
)

var (
	// patience is how long something may take that should take seconds.
	patience = stage.Patience
	// answerTime is how long a probe that must be answered is repeated.
	answerTime = stage.AnswerTime
)

// silenceTime is how long a probe that must not be answered is repeated.
const silenceTime = 1500 * time.Millisecond

// suite is all tests of this package, on one lab.
var suite = stage.NewSuite("e2e", "../..")

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// env is the environment of every test.
type env struct{ *stage.Env }

// start returns the shared lab, or fails the test; see stage.Suite.Start.
func start(t *testing.T) *env {
	t.Helper()
	return &env{suite.Start(t)}
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	return stage.Within(t, limit)
}

func unique(prefix string) string { return stage.Unique(prefix) }

// inOrder joins lines that came from a map or from parallel work.
func inOrder(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
