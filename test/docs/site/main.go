// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command site builds a site of the Markdown files of the repository with Hugo, and checks all
// links of the result.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
)

func main() {
	out := flag.String("out", "bin/site", "folder for the site; what is in it is removed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := build(ctx, ".", *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, "%s\n", filepath.Join(*out, "index.html"))
}

// build lays the sources of the site in a folder of their own, runs Hugo there, and checks the
// site.
func build(ctx context.Context, root, out string) error {
	project, err := os.MkdirTemp("", "alioth-site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(project)
	if err := lay(root, project); err != nil {
		return fmt.Errorf("lay the pages: %w", err)
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return err
	}
	hugo := exec.CommandContext(ctx, "go", "tool", "-modfile=test/tools/site.mod", "hugo",
		"--source", project, "--destination", out, "--cleanDestinationDir", "--panicOnWarning", "--noBuildLock")
	hugo.Dir, hugo.Stdout, hugo.Stderr = root, os.Stderr, os.Stderr
	if err := hugo.Run(); err != nil {
		return fmt.Errorf("hugo: %w", err)
	}
	return errors.Join(broken(out)...)
}
