// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package killed shows tests the remainders of processes that are killed in the middle of their
// work, at a moment that nobody has chosen.
package killed

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/soak"
)

// variable has the job of a process that is going to be killed, as JSON.
const variable = "ALIOTH_TEST_KILLED_JOB"

// Kills of one test, with `make soak` and elsewhere.
const manyKills, fewKills = 40, 6

// Working reads the job of the process into job, and returns false in a process that is not
// to be killed. A test calls it first, and then works without an end.
func Working(t *testing.T, job any) bool {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return false
	}
	if err := json.Unmarshal([]byte(text), job); err != nil {
		t.Fatal(err)
	}
	return true
}

// Began tells that a process has begun its work.
func Began() { _, _ = os.Stdout.WriteString("\n") }

// AtAnyMoment starts a process again and again, which runs one test of the calling test
// binary with a job. It kills each at a random moment within span after Began, and calls after.
func AtAnyMoment(t *testing.T, test string, job any, span time.Duration, after func()) {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	for range soak.Or(t, manyKills, fewKills) {
		killOne(t, test, string(text), span)
		after()
	}
}

func killOne(t *testing.T, test, job string, span time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), variable+"="+job)
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, began := io.ReadFull(output, make([]byte, 1))
	<-time.After(rand.N(span)) // the test is about this moment
	_ = cmd.Process.Kill()
	rest, _ := io.ReadAll(output)
	_ = cmd.Wait()
	if began != nil || cmd.ProcessState.Exited() {
		t.Fatalf("the process has ended before it was killed: %v: %s", cmd.ProcessState, rest)
	}
}
