// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command aliothctl shows state that kubectl can't show: the state of a node's daemon and BPF maps,
// and its differences from the API. It also has the break-glass command to release an address.
// Installed as kubectl-alioth it is a plugin of kubectl.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cmd/aliothctl/netpol"
	"github.com/alioth-net/alioth/cmd/aliothctl/nodenetwork"
)

// Names of the binary as a plugin of kubectl. kubectl runs the second one to complete a user's
// command line.
const (
	asPlugin    = "kubectl-alioth"
	asCompleter = "kubectl_complete-alioth"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := onTerminal(newCommand(os.Args...), os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		stop()
		os.Exit(exitStatus(err))
	}
}

// onTerminal filters the output of a command for a terminal. Much of it comes from nodes and
// tenants: each output and error of each command passes here.
func onTerminal(root *cobra.Command, stdout, stderr io.Writer) *cobra.Command {
	root.SetOut(quote.Terminal(stdout))
	root.SetErr(quote.Terminal(stderr))
	return root
}

// exitStatus returns 1 for a finding of verify, trace, netpol, nodenetwork policy handle,
// version or preflight, and for a failure of the node's network. It returns 2 for an error.
func exitStatus(err error) int {
	if nodenetwork.IsFinding(err) || netpol.IsFinding(err) || errors.Is(err, errDifferent) || errors.Is(err, errStopped) ||
		errors.Is(err, errSkew) ||
		errors.Is(err, errBlocked) {
		return 1
	}
	return 2
}

// newCommand returns the command for a command line, whose first word is the name
// of the binary.
func newCommand(line ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "aliothctl",
		Short: "Inspect Alioth: attachments, counters, maps, flows, lost packets, and whether all of it agrees",
		Long: `Inspect Alioth.

drops, flows, trace, verify, netpol, release and nodenetwork work from anywhere with
a kubeconfig.

explain needs no cluster: it prints what a reason means, and what to do. Nor does netpol
with --offline.

status, dump and map show one node. With --node they reach it through the API
server; without, they show the node on which they run, as root.`,
		SilenceUsage: true,
		Version:      version.Get().String(),
	}
	root.AddCommand(
		statusCommand(),
		mapCommand(),
		dumpCommand(),
		releaseCommand(),
		verifyCommand(),
		dropsCommand(),
		flowsCommand(),
		traceCommand(),
		packetTraceCommand(),
		nodenetwork.StateCommand(),
		nodenetwork.Command(),
		netpol.Command(),
		nodenetwork.FormerPolicyCommand(),
		versionCommand(),
		preflightCommand(),
		explainCommand(),
	)
	for _, group := range root.Commands() {
		refuseUnknown(group)
	}
	showForm(root)
	root.SetArgs(line[1:])
	switch filepath.Base(line[0]) {
	case asCompleter:
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, line[1:]...))
		fallthrough
	case asPlugin:
		root.Use = asPlugin
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl alioth"}
		rename(root, "kubectl alioth")
	}
	return root
}

// refuseUnknown lets a command that only has others below it refuse the name of an unknown one, as
// the root does. cobra prints the help with exit status 0 instead, and a script would go on.
func refuseUnknown(group *cobra.Command) {
	if !group.HasSubCommands() || group.Runnable() {
		return
	}
	group.DisableFlagsInUseLine = true
	group.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return fmt.Errorf(
			"unknown command %q for %q; list them with: %s --help",
			args[0],
			cmd.CommandPath(),
			cmd.CommandPath(),
		)
	}
	for _, sub := range group.Commands() {
		refuseUnknown(sub)
	}
}

// showForm adds the form of the command to the error of wrong arguments.
func showForm(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		showForm(sub)
	}
}

// rename replaces the name of the binary in the texts of a command by the name that the user calls
// it by.
func rename(cmd *cobra.Command, name string) {
	for _, text := range []*string{&cmd.Long, &cmd.Example} {
		*text = strings.ReplaceAll(*text, "aliothctl", name)
	}
	for _, sub := range cmd.Commands() {
		rename(sub, name)
	}
}
