// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenetwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

func (o *stateOptions) showCommand() *cobra.Command {
	var format string
	var configured bool
	cmd := &cobra.Command{
		Use:   "show [INTERFACE]",
		Short: "Show the node's network state",
		Long: `Show the node's network state as a document. With the name of an interface, it is that
interface with its routes, and with the rules that lead to the tables of these routes.`,
		Example: `  aliothctl state show
  aliothctl state show eth1 -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "yaml" && format != "json" {
				return fmt.Errorf("output %q: want yaml or json", format)
			}
			return o.with(cmd.ErrOrStderr(), func(e *engine.Engine) error {
				state, err := e.Show(cmd.Context())
				if err == nil && configured {
					state = withoutAutomatic(state)
				}
				if err == nil && len(args) > 0 {
					state, err = only(state, args[0])
				}
				if err != nil {
					return err
				}
				return printState(cmd.OutOrStdout(), state, format)
			})
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "yaml", "yaml or json")
	cmd.Flags().
		BoolVarP(&configured, "running-config", "r", false, "leave out what comes automatically: addresses of leases and advertisements, and their routes")
	return cmd
}

// withoutAutomatic returns a state without the values that DHCP servers and routers gave.
func withoutAutomatic(state *document.State) *document.State {
	s := *state
	s.Interfaces = slices.Clone(s.Interfaces)
	for n := range s.Interfaces {
		i := &s.Interfaces[n]
		i.IPv4, i.IPv6 = withStatic(i.IPv4), withStatic(i.IPv6)
	}
	if s.Routes != nil {
		s.Routes = &document.Routes{Config: s.Routes.Config}
	}
	if s.DNS != nil {
		s.DNS = &document.DNS{Config: s.DNS.Config}
	}
	return &s
}

// withStatic returns a family with its static addresses alone.
func withStatic(ip *document.IP) *document.IP {
	if ip == nil {
		return nil
	}
	family := *ip
	family.Addresses = slices.DeleteFunc(slices.Clone(ip.Addresses), document.Address.IsAutomatic)
	return &family
}

// only returns the part of a state about one interface.
func only(state *document.State, name string) (*document.State, error) {
	at := slices.IndexFunc(state.Interfaces, func(i document.Interface) bool { return i.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("the node's own network has no interface %q; list them with: aliothctl state show", name)
	}
	one := &document.State{Interfaces: state.Interfaces[at : at+1]}
	if state.Routes == nil {
		return one, nil
	}
	others := func(r document.Route) bool { return r.Interface != name }
	one.Routes = &document.Routes{
		Running: slices.DeleteFunc(slices.Clone(state.Routes.Running), others),
		Config:  slices.DeleteFunc(slices.Clone(state.Routes.Config), others),
	}
	if state.RouteRules != nil {
		one.RouteRules = &document.RouteRules{Config: rulesOf(state.RouteRules.Config, one.Routes, name)}
	}
	return one, nil
}

// rulesOf returns the rules about packets from an interface, and the rules that lead to the tables
// of its routes.
func rulesOf(rules []document.RouteRule, routes *document.Routes, name string) []document.RouteRule {
	list := []document.RouteRule{}
	for _, rule := range rules {
		inTable := func(r document.Route) bool { return r.Table != nil && rule.Table != nil && *r.Table == *rule.Table }
		if rule.IncomingInterface == name || slices.ContainsFunc(routes.Config, inTable) {
			list = append(list, rule)
		}
	}
	return list
}

func printState(out io.Writer, state *document.State, format string) error {
	text, err := state.Format()
	if format == "json" {
		text, err = json.MarshalIndent(state, "", "  ")
		text = append(text, '\n')
	}
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// applying is how a desired state is applied.
type applying struct {
	transaction.Options
	dryRun  bool
	targets []string
}

func (o *stateOptions) applyCommand() *cobra.Command {
	var a applying
	cmd := &cobra.Command{
		Use:   "apply FILE...",
		Short: "Change the node's network to a desired state",
		Long: `Change the node's network to a desired state, a document in YAML or JSON; - reads
it from standard input. Only what the document names is changed. Several documents are
read first; then each is a change of its own, in their order.

The command waits until the node has the state, and until these answer: new gateways
of default routes, targets of --reach, and the gateways and name servers that answered
before. Otherwise it restores the state before.`,
		Example: `  aliothctl state apply bond.yaml --dry-run
  aliothctl state apply bond.yaml --reach 192.0.2.10:6443,storage.example.com
  aliothctl state apply bond.yaml --no-commit --timeout 5m && aliothctl state commit`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			desired, err := a.readStates(cmd, args)
			if err != nil {
				return err
			}
			if a.Reach, err = reach.ParseList("--reach", a.targets); err != nil {
				return err
			}
			a.NoProbe = a.ProbeLimit <= 0
			return o.with(cmd.ErrOrStderr(), func(e *engine.Engine) error {
				if a.dryRun {
					steps, err := e.Plan(cmd.Context(), desired[0])
					return errors.Join(printSteps(cmd.OutOrStdout(), "would", steps), err)
				}
				for n, state := range desired {
					if err := o.apply(cmd.Context(), cmd.OutOrStdout(), e, state, a.Options); err != nil {
						return ofDocument(args, n, err)
					}
				}
				return nil
			})
		},
	}
	a.addFlags(cmd)
	return cmd
}

func (a *applying) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&a.dryRun, "dry-run", false, "print the steps, and change nothing")
	flags.BoolVar(&a.NoCommit, "no-commit", false, "undo the change at the end of --timeout unless it is committed")
	flags.BoolVar(&a.NoVerify, "no-verify", false, "do not compare the result with the desired state")
	flags.DurationVar(&a.Timeout, "timeout", engine.DefaultTimeout, "when to undo a change that is not committed")
	flags.DurationVar(
		&a.ProbeLimit,
		"probe-timeout",
		engine.DefaultProbeLimit,
		"how long gateways, name servers and targets have to answer; 0 asks none of them",
	)
	flags.StringSliceVar(
		&a.targets,
		"reach",
		nil,
		"targets that must be reached after the change: HOST answers echo requests, HOST:PORT accepts TCP connections",
	)
	if err := cmd.RegisterFlagCompletionFunc("reach", cobra.NoFileCompletions); err != nil {
		panic(err) // the flag was registered twice
	}
}

func (o *stateOptions) apply(
	ctx context.Context,
	out io.Writer,
	e *engine.Engine,
	desired *document.State,
	how transaction.Options,
) error {
	result, err := e.Apply(ctx, desired, how)
	if err != nil {
		return err
	}
	if len(result.Steps) == 0 {
		_, err = fmt.Fprintln(out, "The node has this state already.")
		return err
	}
	if result.Open == nil {
		_, err = fmt.Fprintf(out, "The node has the desired state; steps: %d.\n", len(result.Steps))
		return err
	}
	_, err = fmt.Fprintf(out, "The node has the desired state until %s. Keep it with: aliothctl state commit\n",
		result.Open.Deadline.Format(time.RFC3339))
	return err
}

func printSteps(out io.Writer, word string, steps []plan.Step) error {
	for _, step := range steps {
		if _, err := fmt.Fprintf(out, "%s %s\n", word, step); err != nil {
			return err
		}
	}
	return nil
}

// readStates reads the documents of a command line. A dry run knows the host only before the first
// document, and a change that waits for its commit admits no other document.
func (a *applying) readStates(cmd *cobra.Command, paths []string) (list []*document.State, err error) {
	if len(paths) > 1 && (a.dryRun || a.NoCommit) {
		return nil, errors.New("--dry-run and --no-commit take one document: call the command for each")
	}
	for n, path := range paths {
		state, err := readState(cmd, path)
		if err != nil {
			return nil, ofDocument(paths, n, err)
		}
		list = append(list, state)
	}
	return list, nil
}

// ofDocument names the document of an error where there are several.
func ofDocument(paths []string, n int, err error) error {
	if len(paths) == 1 {
		return err
	}
	return fmt.Errorf("%s: %w", paths[n], err)
}

func readState(cmd *cobra.Command, path string) (*document.State, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(cmd.InOrStdin())
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the desired state: %w", err)
	}
	return document.Parse(text)
}
