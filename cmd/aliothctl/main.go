// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command aliothctl shows what kubectl can't: what a node's daemon and its
// maps hold, and whether that agrees with the API. It also has the break-glass
// command to release an address.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		stop()
		os.Exit(exitStatus(err))
	}
}

// exitStatus is 1 for what verify or trace found, and 2 for what went wrong.
func exitStatus(err error) int {
	if errors.Is(err, errDifferent) || errors.Is(err, errStopped) {
		return 1
	}
	return 2
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "aliothctl",
		Short: "Look into Alioth: attachments, counters, maps, flows, lost packets, and whether all of it agrees",
		Long: `Look into Alioth.

drops, flows, trace, verify and release work from anywhere with a kubeconfig.

status, dump and map speak of one node: with --node through the API server, without
it of the node on which they run, as root.`,
		SilenceUsage: true,
	}
	root.AddCommand(statusCommand(), mapCommand(), dumpCommand(), releaseCommand(), verifyCommand(),
		dropsCommand(), flowsCommand(), traceCommand(), hopCommand())
	return root
}
