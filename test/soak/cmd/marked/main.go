// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command marked prints the arguments of go test that run the tests of `make soak` in some
// packages. Run it from the project's root folder.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/test/soak/marked"
)

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "marked:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var part, without string
	cmd := &cobra.Command{
		Use:           "marked PACKAGE...",
		Short:         "Find the tests that make soak runs",
		Long:          "Prints the arguments of go test that run the tests that call a function of test/soak.",
		Example:       "  go run ./test/soak/cmd/marked --without './test/e2e/...' ./...",
		Args:          cobra.MinimumNArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, packages []string) error {
			all, err := marked.Find(os.DirFS("."))
			if err != nil {
				return err
			}
			arguments, err := marked.Arguments(marked.Select(all, part, packages, strings.Fields(without)))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(arguments, " "))
			return err
		},
	}
	cmd.Flags().StringVar(&part, "part", "", "the tests that belong to a target of their own (soak.Part)")
	cmd.Flags().StringVar(&without, "without", "", "packages that are left out, separated by spaces")
	return cmd
}
