// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodenetwork has the commands about the nodes' own networks: state for the node that it
// runs on, and nodenetwork policy for the cluster.
package nodenetwork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/api/nmstate/reach"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cnid/nmstate/bootunit"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/host"
	"github.com/alioth-net/alioth/cnid/nmstate/reserved"
)

// stateOptions are the options that all commands about the node's network state have.
type stateOptions struct {
	// dir has the transactions, root is the host's file system.
	dir, root string
	// apiServer has to be reached after a change if it was before. The zero value means no such
	// check.
	apiServer reach.Target
	// shadows are the ranges of shadow addresses, as the chart has them.
	shadows []string
}

// StateCommand returns the command "state" with those below it.
func StateCommand() *cobra.Command {
	var o stateOptions
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Show, change and restore this node's own network",
		Long: `Show, change and restore the network of the node on which it runs, as root: its
interfaces, addresses, routes, rules and resolver, as a document in the form of
nmstate. Interfaces of pods and of Alioth are left out.

A change that fails, that does not lead to the desired state, or after which the
node does not reach what it has to reach, is undone. A second process undoes
it too if the first one is killed.

Exit status: 0 after success, 1 if the network could not be shown, changed or
restored, 2 if the command or a document can't be read.`,
		// This command replaces nmstatectl, which tells its version too.
		Version:     version.Get().String(),
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "aliothctl"},
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.dir, "dir", engine.DefaultDir, "folder of transactions and of the committed state")
	flags.StringVar(&o.root, "root", "/", "the host's file system")
	flags.StringSliceVar(&o.shadows, "shadow-cidrs", []string{v1alpha1.ShadowCIDR4, v1alpha1.ShadowCIDR6},
		"ranges of shadow addresses, as of the daemon: an address there is Alioth's")
	cmd.AddCommand(o.showCommand(), o.applyCommand(), o.commitCommand(), o.rollbackCommand(),
		o.restoreCommand(), o.installCommand(), o.handleCommand(), o.dhcpCommand(), o.guardCommand())
	return cmd
}

// failure is an error of the node's network, and not of the command: a change was refused or
// undone, or the node does not have a state.
type failure struct{ error }

// Unwrap returns the error.
func (f failure) Unwrap() error { return f.error }

// IsFinding reports whether an error of a command is a failure of the node's network or a degraded
// policy, and not an error of the command itself.
func IsFinding(err error) bool {
	_, failed := errors.AsType[failure](err)
	return failed || errors.Is(err, errDegraded)
}

func failureOf(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// with calls f with the engine of this node. An error of f counts as a failure of the network.
func (o *stateOptions) with(log io.Writer, f func(*engine.Engine) error) error {
	cfg, err := o.config(log)
	if err != nil {
		return err
	}
	e, err := engine.Open(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	return failureOf(f(e))
}

func (o *stateOptions) config(log io.Writer) (cfg engine.Config, err error) {
	binary, err := os.Executable()
	if err != nil {
		return cfg, fmt.Errorf("find this program's file, which undoes changes: %w", err)
	}
	shadows := make([]netip.Prefix, len(o.shadows))
	for n, text := range o.shadows {
		if shadows[n], err = netip.ParsePrefix(text); err != nil {
			return cfg, fmt.Errorf("--shadow-cidrs: %w", err)
		}
	}
	return engine.Config{
		Dir: o.dir, Root: o.root, APIServer: o.apiServer, Binary: binary, Log: log,
		Guard: []string{
			binary,
			"state",
			"guard",
			"--dir",
			o.dir,
			"--root",
			o.root,
			"--shadow-cidrs",
			strings.Join(o.shadows, ","),
		},
		Others: host.Others{Interface: reserved.Is, Address: reserved.Addresses(shadows)},
	}, nil
}

func (o *stateOptions) commitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "commit",
		Short: "Keep what apply --no-commit has changed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.ErrOrStderr(), func(e *engine.Engine) error {
				return e.Commit(cmd.Context())
			})
		},
	}
}

func (o *stateOptions) rollbackCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rollback",
		Short: "Restore the state before an apply --no-commit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.ErrOrStderr(), func(e *engine.Engine) error {
				return e.Rollback(cmd.Context())
			})
		},
	}
}

func (o *stateOptions) restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore",
		Short: "Apply the committed state again, as the unit does at each boot",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.ErrOrStderr(), func(e *engine.Engine) error {
				return e.Restore(cmd.Context())
			})
		},
	}
}

func (o *stateOptions) installCommand() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the systemd unit that applies the committed state at each boot",
		Long: `Install the systemd unit ` + bootunit.Name + `. It applies the
committed state at each boot, before the kubelet starts, and needs no API server.
Without it, changes of the node's own address or default route are refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := o.config(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if remove {
				return cfg.Unit().Remove()
			}
			if err := cfg.Unit().Install(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is installed and enabled.\n", bootunit.Name)
			return err
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the unit")
	return cmd
}

func (o *stateOptions) dhcpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "dhcp",
		Short: "Run this node's DHCP clients until it is interrupted",
		Long: `Run the DHCP clients that the node's network state asks for (dhcp: true), as root,
until it is interrupted. The daemon does so where nodeNetworkState.enabled of the chart is
true, and so does aliothctl state handle; this command is for nodes without both. One process
of a node runs the clients, and the others wait for its end. Leases are kept: addresses stay
when the process ends, and the next one goes on with them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.ErrOrStderr(), func(e *engine.Engine) error {
				return e.ServeDHCP(cmd.Context(), nil)
			})
		},
	}
}

// guardCommand returns the command that the second process of a transaction runs.
func (o *stateOptions) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "guard ID",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := o.config(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			// The end of the terminal or of the first process must not end this one.
			return failureOf(engine.Guard(context.WithoutCancel(cmd.Context()), cfg, args[0]))
		},
	}
}
