// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/cmd/aliothctl/explain"
	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/docs/reference"
)

// explained returns the entries of all pages of the reference that have some.
func explained() []explain.Entry { return explain.All(reference.Folder, reference.Pages()...) }

func explainCommand() *cobra.Command {
	format := options.Text
	cmd := &cobra.Command{
		Use:   "explain [REASON...]",
		Short: "Explain a reason, a policy, a code or a message: what it means, and what to do",
		Long: `Explain the reasons of conditions, events and drops, the rules and policies of the API
server that refuse objects, the refusals of the chart, the codes of the CNI plugins, and
the errors of aliothctl. Needs no cluster.

Several words are one text: the message of an error finds the reasons, rules and policies
in it. Without a word, the command lists all that it knows.`,
		Example: `  aliothctl explain SubnetExhausted
  aliothctl explain no_endpoint
  aliothctl explain alioth-pod-host
  aliothctl explain "spec.vni can't change: a VNI belongs to one VPC for its whole life"
  aliothctl explain 11                       # a code of the CNI plugins`,
		ValidArgsFunction: completeReasons,
		RunE: func(cmd *cobra.Command, args []string) error {
			all := explained()
			if len(args) == 0 {
				return listExplained(cmd.OutOrStdout(), all, format)
			}
			text := strings.Join(args, " ")
			found := explain.Find(all, text)
			if len(found) == 0 {
				return notExplained(all, text)
			}
			if format == options.JSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(found)
			}
			return explain.Write(cmd.OutOrStdout(), found)
		},
	}
	options.AddFormat(cmd, &format)
	options.Complete(cmd, new(string))
	return cmd
}

func completeReasons(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words := slices.DeleteFunc(explain.Words(explained()), func(word string) bool { return strings.Contains(word, " ") })
	return words, cobra.ShellCompDirectiveNoFileComp
}

func listExplained(out io.Writer, entries []explain.Entry, format string) error {
	if format == options.JSON {
		return json.NewEncoder(out).Encode(entries)
	}
	for _, word := range explain.Words(entries) {
		if _, err := fmt.Fprintln(out, word); err != nil {
			return err
		}
	}
	return nil
}

// notExplained returns the error for a text without entries. It names similar words.
func notExplained(entries []explain.Entry, text string) error {
	if near := explain.Near(entries, text); len(near) > 0 {
		return fmt.Errorf("%q is not explained here: did you mean %s?", text, strings.Join(near, ", "))
	}
	return fmt.Errorf("%q is not explained here: explain without a word lists all that is", text)
}
