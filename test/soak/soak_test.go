// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package soak_test

import (
	"flag"
	"testing"

	"github.com/alioth-net/alioth/test/soak"
)

func TestOr_Variable_LargeOnlyInSoak(t *testing.T) {
	for value, want := range map[string]int{"1": 5000, "": 250, "0": 250} {
		t.Setenv(soak.Variable, value)
		if got := soak.Or(t, 5000, 250); got != want {
			t.Errorf("with %s=%q it is %d, want %d", soak.Variable, value, got, want)
		}
	}
}

func TestOnly_OutsideSoak_Skipped(t *testing.T) {
	for value, want := range map[string]bool{"1": false, "": true, "0": true} {
		t.Setenv(soak.Variable, value)
		var skipped bool
		t.Run("with "+value, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			soak.Only(t)
		})
		if skipped != want {
			t.Errorf("with %s=%q skipped is %t", soak.Variable, value, skipped)
		}
	}
}

func TestWorlds_Name_RepeatsFailedWorld(t *testing.T) {
	run := flag.Lookup("test.run").Value
	defer func(before string) { _ = run.Set(before) }(run.String())
	for _, c := range []struct {
		variable, run string
		seed          uint64
		count         int
	}{
		{"", "^TestHosts$/^" + soak.World(77) + "$", 77, 1}, {"78", "", 78, 1}, {"", "TestHosts", 0, 5},
	} {
		t.Setenv(soak.SeedVariable, c.variable)
		t.Setenv(soak.Variable, "")
		if err := run.Set(c.run); err != nil {
			t.Fatal(err)
		}
		seed, count := soak.Worlds(t, 100, 5)
		if count != c.count || c.seed != 0 && seed != c.seed {
			t.Errorf("with %q and -run %q: %d worlds from %d on", c.variable, c.run, count, seed)
		}
	}
}
