// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/cnid/cniapi"
	"github.com/alioth-net/alioth/cnid/verify"
	"github.com/alioth-net/alioth/cnid/verify/collect"
)

// errDifferent says that the cluster was read and that differences were found.
var errDifferent = errors.New("differences were found")

// Formats of what verify prints.
const (
	asText = "text"
	asJSON = "json"
)

func verifyCommand() *cobra.Command {
	var node string
	reach := defaultAccess()
	format, settle := asText, 15*time.Second
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare claims, pods, journals, devices and BPF maps, and print what differs",
		Long: `Compare everything that is known of one fact in several places: Address and
VNIClaim objects, pods and nodes in the API, and of every node its journal, its
devices, its BPF maps and programs. Each difference is one line: where, what, and
what to do. Nothing is changed.

What is being made or ended right now differs for a moment, so that a difference
counts only when it is still there after --settle.

The nodes are asked through the API server. It takes the right to list the
objects, and to create pods/exec in Alioth's namespace.

Exit status: 0 without differences, 1 with, 2 when the cluster can't be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := restConfig(reach.kubeconfig, cniapi.DefaultSocket)
			if err != nil {
				return err
			}
			collector, err := collect.New(config, reach.namespace)
			if err != nil {
				return err
			}
			found, err := collector.Differences(cmd.Context(), node, settle)
			if err != nil {
				return err
			}
			return report(cmd, found, format)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&node, "node", node, "ask this node alone, and print what is about it")
	flags.DurationVar(&settle, "settle", settle, "how long a difference must last; 0 reads once")
	reach.addFlags(cmd)
	addFormat(cmd, &format)
	complete(cmd, &reach.kubeconfig)
	return cmd
}

// report prints the differences. They are what was asked for, so that they are
// no error message.
func report(cmd *cobra.Command, found []verify.Difference, format string) error {
	if err := printDifferences(cmd.OutOrStdout(), found, format); err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	cmd.SilenceErrors = true
	return errDifferent
}

func printDifferences(out io.Writer, found []verify.Difference, format string) error {
	if format == asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(append([]verify.Difference{}, found...))
	}
	for _, difference := range found {
		if _, err := fmt.Fprintln(out, difference); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "no differences")
		return err
	}
	return nil
}
