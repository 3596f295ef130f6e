// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command lab brings a real Kubernetes up on this machine and down again, and builds the programs
// for it. Run it from the project's root folder.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer cancel()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		cancel()
		os.Exit(1)
	}
}

// rootCommand assembles the commands. Each finds the project by --root.
func rootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "lab",
		Short:         "A real Kubernetes of several nodes on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	l := &lab{began: time.Now()}
	cmd.PersistentFlags().StringVar(&l.root, "root", ".", "the project's root folder")
	cmd.PersistentFlags().
		BoolVar(&l.hardware, "hardware", false, "the lab with a virtual machine as its second node, instead of that of make up")
	cmd.AddCommand(
		l.setupCommand(), l.upCommand(), l.downCommand(),
		l.buildCommand(), l.pathCommand(), l.imagesCommand(), l.kubeconfigCommand(), l.execCommand(),
	)
	return cmd
}

// lab is the common part of the commands.
type lab struct {
	root     string
	hardware bool
	began    time.Time
}

// dir returns the folder of the lab that the commands are about.
func (l *lab) dir() string {
	if l.hardware {
		return cluster.HardwareLab(l.root).Dir
	}
	return cluster.DefaultDir(l.root)
}

// progress prints a line with the seconds since the start.
func (l *lab) progress(line string) {
	fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(l.began).Seconds(), line)
}
