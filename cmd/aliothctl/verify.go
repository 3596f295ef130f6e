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

	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/inspect/verify"
	"github.com/alioth-net/alioth/cnid/inspect/verify/collect"
)

// errDifferent reports that the cluster was read and that differences were found.
var errDifferent = errors.New("differences were found")

func verifyCommand() *cobra.Command {
	var node string
	reach := defaultAccess()
	format, settle, answerWithin := options.Text, 15*time.Second, collect.DefaultAnswerWithin
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare API objects, journals, devices and BPF maps, and print the differences",
		Long: `Compare facts that are recorded in several places: Address and VNIClaim objects,
pods and nodes in the API, and each node's journal, devices, BPF maps and programs.
Each difference is one line: where, what, and what to do. The command changes
nothing.

Objects in creation or deletion differ for a moment. A difference therefore counts
only if it is still there after --settle.

The command reaches the nodes through the API server. It needs the rights to list
the objects, and to create pods/exec in Alioth's namespace.

Exit status: 0 without differences, 1 with differences, 2 if the cluster can't be
read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := options.RESTConfig(reach.kubeconfig, cniapi.DefaultSocket)
			if err != nil {
				return err
			}
			collector, err := collect.New(config, reach.namespace)
			if err != nil {
				return err
			}
			collector.AnswerWithin = answerWithin
			found, err := collector.Differences(cmd.Context(), node, settle)
			if err != nil {
				return err
			}
			return report(cmd, found, format)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&node, "node", node, "check this node only")
	flags.DurationVar(&settle, "settle", settle, "how long a difference must last; 0 reads once")
	flags.DurationVar(
		&answerWithin,
		"answer-within",
		answerWithin,
		"how long a node may take to answer; after that it is reported as silent",
	)
	reach.addFlags(cmd)
	options.AddFormat(cmd, &format)
	options.Complete(cmd, &reach.kubeconfig)
	return cmd
}

// report prints the differences. They are the requested output instead of an error message.
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
	if format == options.JSON {
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
