// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/alioth-net/alioth/test/examples"
	"github.com/alioth-net/alioth/test/examples/reader"
)

// examplesFolder has a folder for each example, and a README about the lab.
const examplesFolder = "../../docs/examples"

// follower follows the README of a folder.
type follower struct {
	*env
	reader.Reader
}

// Each example does on a real cluster as its README shows.
func TestExamples_EachREADME_WorksAsShown(t *testing.T) {
	t.Parallel()
	e := start(t)
	readmes, err := filepath.Glob(filepath.Join(examplesFolder, "*", "README.md"))
	if err != nil || len(readmes) == 0 {
		t.Fatalf("find the examples: %v, %d READMEs", err, len(readmes))
	}
	lab := &follower{e, reader.Reader{Lab: e.Lab, Folder: examplesFolder}}
	t.Cleanup(func() { lab.clean(t) })
	lab.follow(t)
	for _, readme := range readmes {
		r := &follower{e, reader.Reader{Lab: e.Lab, Folder: filepath.Dir(readme)}}
		t.Run(filepath.Base(r.Folder), func(t *testing.T) {
			t.Parallel()
			r.follow(t)
		})
	}
}

// follow carries out the README of the folder, up to its first step that fails.
func (r *follower) follow(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := examples.Read(string(text))
	if err != nil {
		t.Fatalf("README.md: %v", err)
	}
	for _, step := range steps {
		if err := r.take(t, step); err != nil {
			objects, _ := r.Shell(within(t, patience), "kubectl describe -f .")
			t.Fatalf("README.md, line %d: %v\nThe objects of the example:\n%s", step.Line, err, objects)
		}
	}
}

// take carries out a step. Commands that only look have less time than others.
func (r *follower) take(t *testing.T, step examples.Step) error {
	t.Helper()
	if step.Repeatable() {
		return r.Take(within(t, patience/2), step)
	}
	return r.Take(within(t, 2*patience), step)
}

// clean removes the remainders of examples, and the objects that the lab got for them.
func (r *follower) clean(t *testing.T) {
	t.Helper()
	for _, commands := range []string{
		"kubectl delete --recursive --ignore-not-found --timeout " + patience.String() + " -f .",
		"for n in 1 2; do node-exec $n ip link del example0 2>/dev/null || true; done",
		"ip -n alioth-node1 link del eth1",
	} {
		if out, err := r.Shell(within(t, 2*patience), commands); err != nil {
			t.Errorf("%s: %v\n%s", commands, err, out)
		}
	}
}
