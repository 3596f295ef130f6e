// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

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
	kubeconfig, namespace := os.Getenv("KUBECONFIG"), "alioth-system"
	var node string
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
			if !slices.Contains([]string{asText, asJSON}, format) {
				return fmt.Errorf("--output %q: want %s or %s", format, asText, asJSON)
			}
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("read kubeconfig: %w", err)
			}
			collector, err := collect.New(config, namespace)
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
	flags.StringVar(&kubeconfig, "kubeconfig", kubeconfig, "file that says how to reach the API server (environment: KUBECONFIG)")
	flags.StringVarP(&namespace, "namespace", "n", namespace, "namespace in which Alioth is installed")
	flags.StringVar(&node, "node", node, "ask this node alone, and print what is about it")
	flags.StringVarP(&format, "output", "o", format, "text or json")
	flags.DurationVar(&settle, "settle", settle, "how long a difference must last; 0 reads once")
	complete(cmd, &kubeconfig)
	return cmd
}

// complete lets a shell complete the values of flags.
func complete(cmd *cobra.Command, kubeconfig *string) {
	formats := cobra.FixedCompletions([]cobra.Completion{asText, asJSON}, cobra.ShellCompDirectiveNoFileComp)
	nodes := func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		api, err := newClient(*kubeconfig)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var list corev1.NodeList
		if err := api.List(cmd.Context(), &list); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []cobra.Completion
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	for flag, values := range map[string]cobra.CompletionFunc{"output": formats, "node": nodes} {
		if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
			panic(err) // the flag is not there
		}
	}
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
