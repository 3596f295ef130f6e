// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// model is a model in this folder, with how its search is compiled and run.
type model struct {
	// source is the text of the model. It is a part of the test's program, so that a result
	// is valid until the model changes.
	source string
	// run are further arguments of the search.
	run []string
}

// check searches the states of a model, with definitions for the preprocessor, and returns
// the output of the search. optimize is an option of the compiler.
func (m model) check(t *testing.T, optimize string, defines ...string) string {
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
	var generate []string
	for _, define := range defines {
		generate = append(generate, "-D"+define)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.pml"), []byte(m.source), 0o600); err != nil {
		t.Fatal(err)
	}
	in(t, dir, spin, append(generate, "-a", "model.pml")...)
	in(t, dir, compiler, optimize, "-w", "-DSAFETY", "-o", "pan", "pan.c")
	return in(t, dir, filepath.Join(dir, "pan"), m.run...)
}

// in runs a command in a folder, and returns its output.
func in(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// holds fails the test unless all states were searched, and none violates an assertion. A
// search that stops at its limit of steps has not seen all states.
func (m model) holds(t *testing.T, defines ...string) {
	t.Helper()
	output := m.check(t, "-O2", defines...)
	if !strings.Contains(output, "errors: 0") || strings.Contains(output, "Search not completed") || strings.Contains(output, "max search depth") {
		t.Errorf("spin says:\n%s", output)
	}
}

// fails fails the test unless the search finds a state that violates an assertion with
// this text. It is found soon, so that to compile the search takes most of the time.
func (m model) fails(t *testing.T, assertion string, defines ...string) {
	t.Helper()
	output := m.check(t, "-O0", defines...)
	_, violated, found := strings.Cut(output, "assertion violated")
	line, _, _ := strings.Cut(violated, "\n")
	if !found || !strings.Contains(line, assertion) {
		t.Errorf("spin finds no violation of %q:\n%s", assertion, output)
	}
}
