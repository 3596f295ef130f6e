// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command one runs one test by its name, for `make test-one`. It finds the package of the test and
// the step that tests this package, and repeats the test as that step runs it. A lab that the test
// needs comes up with it, and stays for the next run.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer cancel()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "one:", err)
		cancel()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var steps []string
	var only string
	cmd := &cobra.Command{
		Use:           "one NAME",
		Short:         "Run one test wherever it belongs",
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			known, err := parseSteps(steps)
			if err != nil {
				return err
			}
			found, err := find(os.DirFS("."), arguments[0], only)
			if err != nil {
				return err
			}
			step, err := stepOf(known, found)
			if err != nil {
				return err
			}
			return perform(cmd.Context(), os.Stdout, step, found, arguments[0])
		},
	}
	cmd.Flags().
		StringArrayVar(&steps, "step", nil, "a step of the Makefile with its packages, as STEP=./a ./b/...; the first one that has the package counts")
	cmd.Flags().StringVar(&only, "package", "", "the package, where several have a test of this name")
	return cmd
}

// perform repeats a test by make, and says how a lab that stays up is taken down.
func perform(ctx context.Context, out io.Writer, step, path, name string) error {
	fmt.Fprintf(out, "%s is a test of %s, which %s runs\n", name, path, step)
	cmd := exec.CommandContext(
		ctx,
		"make",
		"--no-print-directory",
		"repeat",
		"ONE=1",
		"KEEP_LAB=1",
		"TESTFLAGS=-json",
		"STEP="+step,
	)
	// The names are passed by the environment: make would expand the $ of an expression.
	cmd.Env = append(os.Environ(), "PACKAGE="+path, "TEST="+expression(name))
	r := newResult(out, name)
	cmd.Stdout, cmd.Stderr = &r.lines, os.Stderr
	// make ends with its test, and the test cleans up after an interrupt of the terminal.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	err := cmd.Run()
	r.close()
	if err == nil {
		err = r.err()
	}
	if down := downOf(step); down != "" {
		fmt.Fprintf(out, "a lab that came up stays for the next run; take it down with: %s\n", down)
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", name, path, err)
	}
	return nil
}
