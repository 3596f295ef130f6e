// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Demo shows Alioth's main job: it brings up a real Kubernetes of two nodes with Alioth installed,
// creates two tenants whose VPCs have the same address range, starts their pods, and prints who
// reaches whom. It ends with an error if the result differs from the expected one. The lab stays
// up, to look around.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var root string
	command := &cobra.Command{
		Use:           "demo",
		Short:         "Show two tenants with one address range on a real cluster",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command.Context(), root, newPrinter(command.OutOrStdout()))
		},
	}
	command.Flags().StringVar(&root, "root", ".", "root folder of the work tree")
	return command
}
