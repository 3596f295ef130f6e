// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release builds a release, and prints the flags that stamp a program with its commit.
// Run it from the project's root folder.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/release"
	"github.com/alioth-net/alioth/test/release/stamp"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer cancel()
	cmd := &cobra.Command{Use: "release", SilenceUsage: true, SilenceErrors: true}
	var root string
	cmd.PersistentFlags().StringVar(&root, "root", ".", "the project's root folder")
	cmd.AddCommand(flagsCommand(&root), buildCommand(&root))
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		cancel()
		os.Exit(1)
	}
}

func flagsCommand(root *string) *cobra.Command {
	return &cobra.Command{
		Use:   "flags",
		Short: "Print the linker's flags that write the last commit of the sources into programs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			of, err := stamp.OfSources(cmd.Context(), *root)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), of.Flags())
			return err
		},
	}
}

func buildCommand(root *string) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build everything that a release consists of, and print its folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cache, err := build.DefaultCache()
			if err != nil {
				return err
			}
			progress := func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			dir, err := release.Build(cmd.Context(), release.Options{
				Root: *root, Out: filepath.Join(*root, out), Progress: progress,
				Tools: build.Builder{Root: *root, Cache: cache, Progress: progress},
			})
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), dir)
			}
			return err
		},
	}
	cmd.Flags().
		StringVar(&out, "out", filepath.Join("bin", "release"), "the folder below root that gets the folder of the release")
	return cmd
}
