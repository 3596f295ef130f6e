// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package soak_test

import (
	"testing"

	"github.com/alioth-net/alioth/test/soak"
)

func TestOnlySoakRunsDoMore(t *testing.T) {
	for value, want := range map[string]int{"1": 5000, "": 250, "0": 250} {
		t.Setenv(soak.Variable, value)
		if got := soak.Or(t, 5000, 250); got != want {
			t.Errorf("with %s=%q it is %d, want %d", soak.Variable, value, got, want)
		}
	}
}

func TestTestsThatAreOnlySoakedAreSkippedElsewhere(t *testing.T) {
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
