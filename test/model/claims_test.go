// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// check searches all states of the claim protocol, with definitions for the preprocessor,
// and returns the output of the search.
func check(t *testing.T, defines ...string) string {
	t.Helper()
	spin, err := exec.LookPath("spin")
	if err != nil {
		t.Skip("spin is not installed: run `make setup`, or install Debian's package spin")
	}
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		if compiler, err = exec.LookPath("clang-19"); err != nil {
			t.Skip("no C compiler: install gcc, or run `make generate`, which installs clang-19")
		}
	}
	model, err := filepath.Abs("../../docs/design/claims.pml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	generate := []string{"-a", model}
	for _, define := range defines {
		generate = append([]string{"-D" + define}, generate...)
	}
	in(spin, generate...)
	in(compiler, "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c")
	return in(filepath.Join(dir, "pan"), "-m1000000", "-w23")
}

func TestNoTwoSandboxesAreEverGivenOneAddress(t *testing.T) {
	said := check(t)
	if !strings.Contains(said, "errors: 0") || strings.Contains(said, "Search not completed") {
		t.Errorf("spin says:\n%s", said)
	}
}

// TestTheModelFindsWhatItIsThereToFind leaves out the second look of an ADD,
// without which the model once found that a release overtakes it.
func TestTheModelFindsWhatItIsThereToFind(t *testing.T) {
	if said := check(t, "NO_SECOND_LOOK"); !strings.Contains(said, "assertion violated") {
		t.Errorf("spin says:\n%s", said)
	}
}

// TestATokenOfAnotherNodeChangesNothing has a thief make and delete Addresses for pods
// that are not on the node of the token.
func TestATokenOfAnotherNodeChangesNothing(t *testing.T) {
	if said := check(t, "THIEF"); !strings.Contains(said, "errors: 0") || strings.Contains(said, "Search not completed") {
		t.Errorf("spin says:\n%s", said)
	}
}

// TestTheModelFindsWhatATokenDidThatWasBelieved: the operator went by the Address that a
// daemon asserted for any pod.
func TestTheModelFindsWhatATokenDidThatWasBelieved(t *testing.T) {
	if said := check(t, "THIEF", "TRUST_TOKENS"); !strings.Contains(said, "assertion violated") {
		t.Errorf("spin says:\n%s", said)
	}
}
