// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package needs_test

import (
	"os"
	"testing"

	"github.com/alioth-net/alioth/test/needs"
)

func TestNeeds_FastRun_TestsLeftOut(t *testing.T) {
	for fast, left := range map[string]bool{"1": true, "": false} {
		t.Setenv(needs.Variable, fast)
		for name, need := range map[string]func(t *testing.T){
			"root":       func(t *testing.T) { needs.Root(t, "to test") },
			"Kubernetes": func(t *testing.T) { needs.Kubernetes(t) },
		} {
			t.Run(name+" with "+needs.Variable+"="+fast, func(t *testing.T) {
				left := left || name == "root" && os.Geteuid() != 0
				went := false
				t.Run("a test", func(t *testing.T) {
					need(t)
					went = true
				})
				if went == left {
					t.Errorf("the test went on: %v", went)
				}
			})
		}
		if err := needs.Undeclared(); (err != nil) != left {
			t.Errorf("with %s=%q a program that no test has declared has the error %v", needs.Variable, fast, err)
		}
	}
}

func TestOf_SkipReason_NeedNamed(t *testing.T) {
	for reason, want := range map[string]string{
		"needs root, to make cgroups":            "root",
		"needs a lab: set ALIOTH_E2E=1, or more": "a lab",
		"needs root":                             "root",
		"spin is not installed":                  "",
		"it needs root":                          "",
	} {
		if got, ok := needs.Of(reason); ok != (want != "") || ok && got != want {
			t.Errorf("%q names %q, want %q", reason, got, want)
		}
	}
}
