// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// SeedVariable is the environment variable with the seed of a world that is to be repeated.
const SeedVariable = "ALIOTH_SEED"

// World names the subtest of a random world.
func World(seed uint64) string { return fmt.Sprintf("%s=%d", SeedVariable, seed) }

// named is the name of such a subtest in an expression of `go test -run`.
var named = regexp.MustCompile(SeedVariable + `=(\d+)`)

// Worlds returns the seed of the first of some random worlds, and their number; the next world
// has the next seed. The environment variable, or the name of a subtest that `go test -run` has,
// repeats one world: a run of all tests repeats a subtest that has failed by its name.
func Worlds(t testing.TB, soaked, otherwise int) (seed uint64, count int) {
	t.Helper()
	text := os.Getenv(SeedVariable)
	if run := flag.Lookup("test.run"); text == "" && run != nil {
		if parts := named.FindStringSubmatch(run.Value.String()); parts != nil {
			text = parts[1]
		}
	}
	if text == "" {
		return uint64(time.Now().UnixNano()), Or(t, soaked, otherwise)
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", SeedVariable, err)
	}
	return seed, 1
}
