// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
)

func dumpCommand() *cobra.Command {
	socket := cniapi.DefaultSocket
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Print the state of this node as JSON, which verify reads from each node",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dump, err := nodestatus.FetchDump(cmd.Context(), socket)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(dump)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", socket, "socket of the node's daemon")
	onNode(cmd)
	return cmd
}
