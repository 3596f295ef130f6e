// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Testtool is the one program of the test image: it answers, asks, measures
// and sends packets that a network must refuse. It is a single static binary
// that also runs outside of a container.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// errNegative ends a command with exit code 1 without a message: its output is complete.
var errNegative = errors.New("the answer is no")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		if !errors.Is(err, errNegative) {
			fmt.Fprintln(os.Stderr, "testtool:", err)
		}
		stop()
		os.Exit(1)
	}
}

func root() *cobra.Command {
	command := &cobra.Command{
		Use:           "testtool",
		Short:         "Answer, ask, measure and misbehave on a network under test",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(
		serveCommand(),
		seenCommand(),
		healthCommand(),
		pauseCommand(),
		probeCommand(),
		socketCommand(),
		dialCommand(),
		pingCommand(),
		awaitCommand(),
		resolveCommand(),
		getCommand(),
		apiCommand(),
		streamCommand(),
		connectionsCommand(),
		converseCommand(),
		loadCommand(),
		latencyCommand(),
		connectCommand(),
		echoCommand(),
		offloadCommand(),
		rawCommand(),
		whoHasCommand(),
		machineCommand(),
	)
	return command
}

// printJSON writes a value as one line.
func printJSON(out io.Writer, value any) error {
	if err := json.NewEncoder(out).Encode(value); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}

// untilFile returns a context that also ends when a file of that name exists. An empty name means
// no file.
func untilFile(ctx context.Context, name string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if name == "" {
		return ctx, cancel
	}
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if _, err := os.Stat(name); err == nil {
				cancel()
				return
			}
		}
	}()
	return ctx, cancel
}

// touch makes an empty file; without a name it does nothing. The process that waits for the file
// reports that it never came.
func touch(name string) {
	if name != "" {
		_ = os.WriteFile(name, nil, 0o600)
	}
}

// within returns a context with a timeout, or without one for 0.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}
