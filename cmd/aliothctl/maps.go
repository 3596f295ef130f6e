// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

func mapCommand() *cobra.Command {
	maps := &cobra.Command{Use: "map", Short: "Inspect a node's BPF maps"}
	pins, socket, format := programs.DefaultPinDir, cniapi.DefaultSocket, options.Text
	dump := &cobra.Command{
		Use:   "dump",
		Short: "Print the contents of a node's BPF maps as text or JSON; works without the daemon",
		Long: `Print the contents of a node's BPF maps: VPCs, interfaces, addresses, nodes,
services, connections and closed ranges. The command works without the daemon, but
then prints no names of pods and VPCs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			held, err := readContents(pins)
			if err != nil {
				return err
			}
			if format == options.JSON {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(held)
			}
			now, err := datapath.MonotonicNow()
			if err != nil {
				return err
			}
			status, err := nodestatus.Fetch(cmd.Context(), socket)
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "names of pods and VPCs are not available: %v\n", err)
			}
			return newWords(held, now, status.Attachments).write(cmd.OutOrStdout())
		},
	}
	dump.Flags().StringVar(&pins, "bpf-dir", pins, "directory of the pinned maps")
	dump.Flags().StringVar(&socket, "socket", socket, "socket of the node's daemon")
	options.AddFormat(dump, &format)
	onNode(dump)
	maps.AddCommand(dump)
	return maps
}

func readContents(pins string) (held contents, err error) {
	reader, err := datapath.OpenReader(pins)
	if err != nil {
		return held, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	if held.State, err = reader.Snapshot(); err != nil {
		return held, err
	}
	held.Connections, err = reader.Connections()
	return held, err
}
