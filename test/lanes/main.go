// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command lanes runs targets of the Makefile in lanes side by side, and ends with a table of
// durations:
//
//	lanes --low compute --after lab=down --wait compute=test-e2e lab=test-e2e,test-roles compute=lint
//
// A lane runs its targets one after the other. A target that fails ends neither
// its own lane nor another one, so that one run shows all that is broken. Each
// line of output has its lane in front, and the output ends with the failures in
// short; the whole output, with the events of all tests, is in .lanes/<lane>.log.
//
// A failed test of a target after --repeat runs once more by `make repeat`, alone, once all lanes
// have ended. If it passes then, it is flaky, and the run passes with two of them at most.
//
// Before its lanes, lanes measures how slow the machine is. Tests multiply the limits of their
// waits by this factor (package test/waits).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/lanes/machine"
	"github.com/alioth-net/alioth/test/waits"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer cancel()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lanes:", err)
		cancel()
		os.Exit(1)
	}
}

// bePatient measures the machine once for all steps, whose tests multiply the limits of their
// waits by the factor, unless a person has set one.
func bePatient(out io.Writer) error {
	if factor, set := os.LookupEnv(waits.Variable); set {
		fmt.Fprintf(out, "limits of waits: times %d, from %s=%s\n", waits.Factor(), waits.Variable, factor)
		return nil
	}
	figures, err := machine.Measure()
	if err != nil {
		return fmt.Errorf("measure the machine: %w", err)
	}
	fmt.Fprintf(out, "limits of waits: times %d, because the machine takes for %s\n", figures.Factor(), figures)
	return os.Setenv(waits.Variable, strconv.Itoa(figures.Factor()))
}

// makeTarget runs a target of the Makefile, whose tests print events.
func makeTarget(step string, variables ...string) *exec.Cmd {
	cmd := exec.Command("make", "--no-print-directory", step)
	cmd.Env = slices.Concat(os.Environ(), []string{"TESTFLAGS=-json"}, variables)
	return cmd
}

func command() *cobra.Command {
	var low []string
	var after, wait map[string]string
	r := &run{Out: os.Stdout, Dir: ".lanes", Command: makeTarget}
	cmd := &cobra.Command{
		Use:           "lanes LANE=TARGET,... ...",
		Short:         "Run targets of the Makefile in lanes side by side",
		Args:          cobra.MinimumNArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			var err error
			if r.Lanes, err = parse(arguments, low, after, wait); err != nil {
				return err
			}
			if err := bePatient(r.Out); err != nil {
				return err
			}
			if !r.do(cmd.Context()) {
				return errors.New("failed")
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&low, "low", nil, "lanes that leave the processors to the others")
	cmd.Flags().
		StringSliceVar(&r.Repeats, "repeat", nil, "targets whose failed tests run once more, alone, after all lanes")
	cmd.Flags().StringToStringVar(&after, "after", nil, "a target that ends a lane in any case, as LANE=TARGET")
	cmd.Flags().
		StringToStringVar(&wait, "wait", nil, "a target of a lane named before that has ended before a lane begins, as LANE=TARGET")
	return cmd
}
