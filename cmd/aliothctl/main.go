// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command aliothctl shows what kubectl can't: what a node's daemon and its
// maps hold. It also has the break-glass command to release an address.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		stop()
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "aliothctl",
		Short: "Look into Alioth: a node's attachments, counters and maps",
		Long: `Look into Alioth.

status and map speak of the node on which they run, as root: on the node itself,
or through the daemon's pod:

  kubectl -n alioth-system exec ds/alioth-cnid -- aliothctl status

release works from anywhere with a kubeconfig.`,
		SilenceUsage: true,
	}
	root.AddCommand(statusCommand(), mapCommand(), releaseCommand())
	return root
}
