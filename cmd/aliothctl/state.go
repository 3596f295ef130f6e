// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/bootunit"
	"github.com/alioth-net/alioth/cnid/nmstate/host"
	"github.com/alioth-net/alioth/cnid/nmstate/managers"
	"github.com/alioth-net/alioth/cnid/nmstate/permit"
	"github.com/alioth-net/alioth/cnid/nmstate/probe"
	"github.com/alioth-net/alioth/cnid/nmstate/reserved"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// stateOptions are those that all commands about the node's network state have.
type stateOptions struct {
	// dir has the transactions, root is the host's file system.
	dir, root string
	// reach are addresses, HOST:PORT, that must be reached after a change.
	reach []string
}

func stateCommand() *cobra.Command {
	var o stateOptions
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Show, change and restore this node's own network",
		Long: `Show, change and restore the network of the node on which it runs, as root: its
interfaces, addresses, routes, rules and resolver, as a document in the form of
nmstate. Interfaces of pods and of Alioth are no part of it.

A change that fails, that does not lead to the desired state, or after which the
node no longer reaches what it reached before, is undone. A second process undoes
it too if the first one is killed.`,
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.dir, "dir", "/var/lib/alioth/nmstate", "folder of transactions and of the committed state")
	flags.StringVar(&o.root, "root", "/", "the host's file system")
	cmd.AddCommand(o.showCommand(), o.applyCommand(), o.commitCommand(), o.rollbackCommand(),
		o.restoreCommand(), o.installCommand(), o.guardCommand())
	return cmd
}

// with calls f with the Manager of this node.
func (o *stateOptions) with(log io.Writer, f func(*transaction.Manager, *host.Host) error) error {
	h, err := host.Open(resolvconf.New(filepath.Join(o.root, resolvconf.DefaultPath)), reserved.Is)
	if err != nil {
		return err
	}
	defer h.Close()
	rules := permit.Rules{Manager: managers.Root(o.root).Of, Kept: o.unit().Installed}
	m, err := transaction.New(transaction.Config{
		Dir: o.dir, Host: h, StartGuard: o.startGuard, Probes: o.probes, Permit: rules.Steps,
		Tries: 5, Interval: time.Second, ProbeLimit: 30 * time.Second, Log: log,
	})
	if err != nil {
		return err
	}
	return f(m, h)
}

// publicName is a name that every resolver can be asked for.
const publicName = "root-servers.net."

// probes are the gateways of default routes, the name servers, and what the user named.
func (o *stateOptions) probes(before *document.State) []probe.Probe {
	var list []probe.Probe
	for _, gateway := range gateways(before) {
		list = append(list, probe.Gateway(gateway))
	}
	if before.DNS != nil && before.DNS.Running != nil {
		for _, server := range before.DNS.Running.Server {
			list = append(list, probe.Lookup(server, publicName))
		}
	}
	for _, address := range o.reach {
		list = append(list, probe.TCP("the address", address))
	}
	return list
}

// gateways are the next hops of default routes, each once.
func gateways(state *document.State) []netip.Addr {
	var list []netip.Addr
	if state.Routes == nil {
		return nil
	}
	for _, route := range state.Routes.Running {
		ip, err := netip.ParseAddr(route.Address)
		if err != nil || (route.Destination != "0.0.0.0/0" && route.Destination != "::/0") {
			continue
		}
		if ip.IsLinkLocalUnicast() && ip.Is6() {
			ip = ip.WithZone(route.Interface)
		}
		if !slices.Contains(list, ip) {
			list = append(list, ip)
		}
	}
	return list
}

func (o *stateOptions) unit() bootunit.Unit {
	binary, err := os.Executable()
	if err != nil {
		binary = "/usr/local/bin/aliothctl"
	}
	return bootunit.Unit{Root: o.root, Binary: binary, Dir: o.dir}
}

func (o *stateOptions) commitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "commit",
		Short: "Keep what apply --no-commit has changed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.ErrOrStderr(), func(m *transaction.Manager, _ *host.Host) error {
				return m.Commit(cmd.Context())
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
			return o.with(cmd.ErrOrStderr(), func(m *transaction.Manager, _ *host.Host) error {
				return m.Rollback(cmd.Context())
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
			return o.with(cmd.ErrOrStderr(), func(m *transaction.Manager, _ *host.Host) error {
				committed, err := m.Committed()
				if err != nil {
					return err
				}
				_, err = m.Apply(cmd.Context(), committed, transaction.Options{Timeout: defaultTimeout})
				return err
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
			if remove {
				return o.unit().Remove()
			}
			if err := o.unit().Install(); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is installed and enabled.\n", bootunit.Name)
			return err
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the unit")
	return cmd
}

// guardCommand is what the second process of a transaction runs.
func (o *stateOptions) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "guard ID",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			// The end of the terminal or of the first process must not end this one.
			return o.with(cmd.ErrOrStderr(), func(m *transaction.Manager, _ *host.Host) error {
				return m.Guard(context.WithoutCancel(cmd.Context()), args[0])
			})
		},
	}
}
