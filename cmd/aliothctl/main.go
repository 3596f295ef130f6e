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

// exitStatus is 1 for what verify found, and 2 for what went wrong.
func exitStatus(err error) int {
	if errors.Is(err, errDifferent) {
		return 1
	}
	return 2
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "aliothctl",
		Short: "Look into Alioth: attachments, counters, maps, and whether all of it agrees",
		Long: `Look into Alioth.

status, dump and map speak of the node on which they run, as root: on the node itself,
or through the daemon's pod:

  kubectl -n alioth-system exec ds/alioth-cnid -- aliothctl status

verify and release work from anywhere with a kubeconfig.`,
		SilenceUsage: true,
	}
	root.AddCommand(statusCommand(), mapCommand(), dumpCommand(), releaseCommand(), verifyCommand())
	return root
}
