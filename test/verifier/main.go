// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command verifier loads one of the BPF programs and prints the log of the kernel's verifier, for
// `make bpf-verify`. It attaches and pins nothing.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

func main() {
	if err := command(os.Stdout).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "verifier:", err)
		os.Exit(1)
	}
}

func command(out io.Writer) *cobra.Command {
	level := branches
	cmd := &cobra.Command{
		Use:           "verifier [PROGRAM]",
		Short:         "Print the verifier's log for a BPF program; without a name list the programs",
		Args:          cobra.MaximumNArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(_ *cobra.Command, arguments []string) error {
			cfg, err := everything().WithDefaults()
			if err != nil {
				return err
			}
			spec, err := programs.Specify(cfg)
			if err != nil {
				return err
			}
			if len(arguments) == 0 {
				list(out, spec)
				return nil
			}
			log, err := verify(spec, arguments[0], level)
			fmt.Fprintln(out, log)
			return err
		},
	}
	cmd.Flags().Var(&level, "level", "what the log has: stats, branches or instructions")
	return cmd
}
