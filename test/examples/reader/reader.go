// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reader follows pages on a lab as a person does: it types the commands, and compares their
// output.
package reader

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/examples"
)

// nodeInPages is the name of a node in pages. Nodes of a lab have the name of their lab.
var nodeInPages = regexp.MustCompile(`\b(?:alioth-)?node([0-9])\b`)

// labInPages begins the names of nodes in the output that pages show.
const labInPages = "alioth-"

// Reader types commands on a lab.
type Reader struct {
	Lab *cluster.Cluster
	// Folder is where the commands are typed.
	Folder string
}

// Take carries out a step. Commands that only look are typed again until they print the text shown,
// as a person types them again.
func (r Reader) Take(ctx context.Context, step examples.Step) error {
	if !step.Repeatable() {
		return r.attempt(ctx, step)
	}
	return scene.Until(ctx, "the commands to print what the page shows", func(ctx context.Context) (bool, string, error) {
		err := r.attempt(ctx, step)
		if err != nil && ctx.Err() == nil { // the output of a killed command says nothing
			return false, err.Error(), nil
		}
		return err == nil, "", nil
	})
}

// attempt types the commands of a step once.
func (r Reader) attempt(ctx context.Context, step examples.Step) error {
	out, err := r.Shell(ctx, step.Commands)
	var failed *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &failed):
		return err
	case step.Fails != (err != nil):
		return errors.Join(errors.New("the commands end with another status than the page says, and print:\n"+out), err)
	case step.Shows:
		return examples.Match(step.Shown, out)
	}
	return nil
}

// Shell runs commands with the lab's programs, and returns all that they print.
func (r Reader) Shell(ctx context.Context, commands string) (string, error) {
	lab := r.Lab.Topology().Lab + "-"
	programs, err := filepath.Abs(filepath.Dir(r.Lab.Aliothctl()))
	if err != nil {
		return "", err
	}
	shell := exec.CommandContext(
		ctx,
		"bash",
		"-eu",
		"-o",
		"pipefail",
		"-c",
		nodeInPages.ReplaceAllString(commands, lab+"node$1"),
	)
	shell.Dir = r.Folder
	shell.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "http_proxy=", "HTTP_PROXY=")
	out, err := shell.CombinedOutput()
	return strings.ReplaceAll(string(out), lab, labInPages), err
}
