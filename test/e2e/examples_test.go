// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/examples"
)

// examplesFolder has a folder for each example, and a README about the lab.
const examplesFolder = "../../docs/examples"

// labInReadmes is the lab's name in READMEs. Another lab has another name.
const labInReadmes = "alioth-"

// reader follows READMEs as a person does: types the commands, and compares what is printed.
type reader struct {
	*env
	// folder is where the commands are typed.
	folder string
}

// Each example does on a real cluster what its README shows.
func TestExamples(t *testing.T) {
	t.Parallel()
	e := start(t)
	readmes, err := filepath.Glob(filepath.Join(examplesFolder, "*", "README.md"))
	if err != nil || len(readmes) == 0 {
		t.Fatalf("find the examples: %v, %d READMEs", err, len(readmes))
	}
	lab := &reader{env: e, folder: examplesFolder}
	t.Cleanup(func() { lab.clean(t) })
	lab.follow(t)
	for _, readme := range readmes {
		r := &reader{env: e, folder: filepath.Dir(readme)}
		t.Run(filepath.Base(r.folder), func(t *testing.T) {
			t.Parallel()
			r.follow(t)
		})
	}
}

// follow carries out the README of the folder, up to its first step that fails.
func (r *reader) follow(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := examples.Read(string(text))
	if err != nil {
		t.Fatalf("README.md: %v", err)
	}
	for _, step := range steps {
		if err := r.take(t, step); err != nil {
			objects, _ := r.shell(within(t, patience), "kubectl describe -f .")
			t.Fatalf("README.md, line %d: %v\nThe objects of the example:\n%s", step.Line, err, objects)
		}
	}
}

// take carries out a step. Commands that only look are typed again until they print what is
// shown, as a person types them again. Others have limits of their own, and more time.
func (r *reader) take(t *testing.T, step examples.Step) error {
	t.Helper()
	if !step.Repeatable() {
		return r.attempt(within(t, 2*patience), step)
	}
	return scene.Until(within(t, patience/2), "the commands to print what the README shows", func(ctx context.Context) (bool, string, error) {
		err := r.attempt(ctx, step)
		if err != nil && ctx.Err() == nil { // what a command prints that is killed says nothing
			return false, err.Error(), nil
		}
		return err == nil, "", nil
	})
}

// attempt types the commands of a step once.
func (r *reader) attempt(ctx context.Context, step examples.Step) error {
	out, err := r.shell(ctx, step.Commands)
	var failed *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &failed):
		return err
	case step.Fails != (err != nil):
		return errors.Join(errors.New("the commands end with another status than the README says, and print:\n"+out), err)
	case step.Shows:
		return examples.Match(step.Shown, out)
	}
	return nil
}

// shell runs commands with the lab's programs, and returns all that they print.
func (r *reader) shell(ctx context.Context, commands string) (string, error) {
	lab := r.Lab.Topology().Lab + "-"
	programs, err := filepath.Abs(filepath.Dir(r.Lab.Aliothctl()))
	if err != nil {
		return "", err
	}
	shell := exec.CommandContext(ctx, "bash", "-eu", "-o", "pipefail", "-c", strings.ReplaceAll(commands, labInReadmes, lab))
	shell.Dir = r.folder
	shell.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "http_proxy=", "HTTP_PROXY=")
	out, err := shell.CombinedOutput()
	return strings.ReplaceAll(string(out), lab, labInReadmes), err
}

// clean removes what examples have left, and what the lab got for them.
func (r *reader) clean(t *testing.T) {
	t.Helper()
	for _, commands := range []string{
		"kubectl delete --recursive --ignore-not-found --timeout " + patience.String() + " -f .",
		"for n in 1 2; do node-exec $n ip link del example0 2>/dev/null || true; done",
		"ip -n alioth-node1 link del eth1",
	} {
		if out, err := r.shell(within(t, 2*patience), commands); err != nil {
			t.Errorf("%s: %v\n%s", commands, err, out)
		}
	}
}
