// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/ebpf/datapath"
)

func mapCommand() *cobra.Command {
	pins := datapath.DefaultPinDir
	maps := &cobra.Command{Use: "map", Short: "Look at what this node's maps hold"}
	dump := &cobra.Command{
		Use:   "dump",
		Short: "Print all that is programmed, as JSON; it needs no daemon",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			reader, err := datapath.OpenReader(pins)
			if err != nil {
				return err
			}
			defer reader.Close()
			state, err := reader.Snapshot()
			if err != nil {
				return err
			}
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent("", "  ")
			return encoder.Encode(state)
		},
	}
	dump.Flags().StringVar(&pins, "bpf-dir", pins, "directory of the pinned maps")
	maps.AddCommand(dump)
	return maps
}
