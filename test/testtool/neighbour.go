// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/testtool/wire"
)

func whoHasCommand() *cobra.Command {
	var timeout time.Duration
	var device string
	command := &cobra.Command{
		Use:   "who-has ADDRESS...",
		Short: "Ask by ARP or neighbour discovery who has addresses, for the whole time, and print one JSON line for each",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			ctx, cancel := within(command.Context(), timeout)
			defer cancel()
			results := make([]report.Neighbour, len(args))
			var all errgroup.Group
			for i, arg := range args {
				all.Go(func() error {
					ip, err := netip.ParseAddr(arg)
					if err != nil {
						return fmt.Errorf("read address: %w", err)
					}
					results[i].IP = arg
					results[i].At, err = wire.WhoHas(ctx, device, ip)
					return err
				})
			}
			if err := all.Wait(); err != nil {
				return err
			}
			for _, result := range results {
				if err := printJSON(command.OutOrStdout(), result); err != nil {
					return err
				}
			}
			return nil
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", time.Second, "how long to ask")
	command.Flags().StringVar(&device, "device", "eth0", "device to ask on")
	return command
}
