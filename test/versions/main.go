// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command versions tests Alioth on the versions of Kubernetes and containerd that it supports. It
// brings a lab up for each combination, runs a set of scenes, and writes the results into
// docs/install.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// errFailed ends a run with failed tests; their output was printed.
var errFailed = errors.New("not everything passed; see docs/install/tested.yaml")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "versions:", err)
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var root string
	var table bool
	cmd := &cobra.Command{
		Use:           "versions [COMBINATION...]",
		Short:         "Test combinations of versions on labs, all without arguments, and write the record",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, names []string) error {
			if table {
				r, err := readRecord(root)
				if err != nil {
					return err
				}
				return r.write(root)
			}
			chosen, err := choose(names)
			if err != nil {
				return err
			}
			return testAll(cmd.Context(), root, chosen)
		},
	}
	cmd.Flags().StringVar(&root, "root", ".", "the project's root folder")
	cmd.Flags().BoolVar(&table, "table", false, "test nothing; write the table from the record again")
	return cmd
}

// testAll tests combinations in the work tree root.
func testAll(ctx context.Context, root string, chosen []combination) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("find the project's root folder: %w", err)
	}
	commit, err := commitOf(ctx, root)
	if err != nil {
		return err
	}
	return newTester(root, commit, os.Stdout).testAll(ctx, chosen)
}

// testAll tests combinations, and writes the record after each. A combination that failed does not
// stop later ones.
func (t *tester) testAll(ctx context.Context, chosen []combination) error {
	var all error
	for _, c := range chosen {
		result, err := t.test(ctx, c)
		if err != nil {
			return errors.Join(all, err)
		}
		if len(result.Failed) > 0 {
			all = errFailed
		}
		old, err := readRecord(t.root)
		if err != nil {
			return err
		}
		if err := old.with(result).write(t.root); err != nil {
			return err
		}
		t.progress(c.name + ": " + result.result())
	}
	return all
}

// commitOf returns the commit of the work tree. The files that a run writes do not count as
// changes.
func commitOf(ctx context.Context, root string) (string, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		if err != nil {
			return "", fmt.Errorf("run git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	commit, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", err
	}
	changes, err := git("status", "--porcelain", "--", ".", ":!"+recordFile, ":!"+pageFile)
	if err == nil && changes != "" {
		commit += " and changes"
	}
	return commit, err
}
