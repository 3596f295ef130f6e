// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
)

// errSkew reports that versions were read which do not work together.
var errSkew = errors.New("versions do not work together")

// Limits of the questions to pods.
const (
	versionsAtOnce = 16
	versionWithin  = 15 * time.Second
)

// versions has the versions of the programs of a cluster, and of this command.
type versions struct {
	Client    version.Info      `json:"client"`
	Operators []operatorVersion `json:"operators,omitempty"`
	Nodes     []nodeVersion     `json:"nodes,omitempty"`
}

// operatorVersion is the version of the operator in a pod. Problem says why the version is not
// known, or why it does not work with aliothctl.
type operatorVersion struct {
	Pod     string `json:"pod"`
	Version string `json:"version,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// nodeVersion is the version of the daemon and the plugin of a node. Problem says why one of them
// is not known, or why it does not work with an operator.
type nodeVersion struct {
	Node    string `json:"node"`
	Daemon  string `json:"daemon,omitempty"`
	Plugin  string `json:"plugin,omitempty"`
	Problem string `json:"problem,omitempty"`
}

func versionCommand() *cobra.Command {
	reach, format := defaultAccess(), options.Text
	var clientOnly, ofNode bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of aliothctl, operators, daemons and plugins, and whether they work together",
		Long: `Show the versions of aliothctl and, with a kubeconfig, of the operators and of each
node's daemon and CNI plugin.

A daemon or plugin may be one minor version older than the operator. During the way
back to an older release it may be newer, until it is replaced too.
aliothctl may be one minor version older or newer.

Exit status: 0 if all versions work together, 1 if some do not, 2 if the cluster
can't be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ofNode {
				return writeNodeVersion(cmd)
			}
			all := versions{Client: version.Get()}
			var err error
			if !clientOnly {
				err = all.ask(cmd.Context(), reach)
			}
			apart := all.judge()
			err = errors.Join(err, all.write(cmd.OutOrStdout(), format))
			if err == nil && apart {
				cmd.SilenceErrors = true
				return errSkew
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", clientOnly, "show the version of aliothctl alone")
	cmd.Flags().BoolVar(&ofNode, "of-node", ofNode, "ask the daemon of the node on which the command runs")
	if err := cmd.Flags().MarkHidden("of-node"); err != nil {
		panic(err)
	}
	reach.addFlags(cmd)
	options.AddFormat(cmd, &format)
	options.Complete(cmd, &reach.kubeconfig)
	return cmd
}

// writeNodeVersion answers for the node that the command runs on.
func writeNodeVersion(cmd *cobra.Command) error {
	status, err := nodestatus.Fetch(cmd.Context(), cniapi.DefaultSocket)
	if err != nil {
		return err
	}
	return json.NewEncoder(cmd.OutOrStdout()).
		Encode(nodeVersion{Node: status.Node, Daemon: status.Version, Plugin: status.Plugin})
}

// ask asks the pods of a cluster. Without a kubeconfig it asks no pod.
func (v *versions) ask(ctx context.Context, reach access) error {
	c, err := reach.open()
	if errors.Is(err, options.ErrNoKubeconfig) {
		return nil
	}
	if err != nil {
		return err
	}
	operators, err := c.operators(ctx)
	if err != nil {
		return err
	}
	daemons, err := c.daemons(ctx, "")
	if err != nil {
		return err
	}
	v.Operators, v.Nodes = make([]operatorVersion, len(operators)), make([]nodeVersion, len(daemons))
	var group errgroup.Group
	group.SetLimit(versionsAtOnce)
	for i := range operators {
		group.Go(func() error { v.Operators[i] = c.operatorVersion(ctx, &operators[i]); return nil })
	}
	for i, node := range slices.Sorted(maps.Keys(daemons)) {
		group.Go(func() error { v.Nodes[i] = c.nodeVersion(ctx, node, daemons[node]); return nil })
	}
	return group.Wait()
}

// operators returns the pods of the operator, in the order of their names.
func (c *cluster) operators(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.api.List(ctx, &pods, client.InNamespace(c.namespace), client.MatchingLabels{
		"app.kubernetes.io/name": "alioth", "app.kubernetes.io/component": "operator",
	}); err != nil {
		return nil, fmt.Errorf("list the pods of alioth-operator: %w", err)
	}
	running := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(running, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return running, nil
}

func (c *cluster) operatorVersion(ctx context.Context, pod *corev1.Pod) operatorVersion {
	found := operatorVersion{Pod: pod.Name}
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel()
	var out bytes.Buffer
	if err := c.exec.RunIn(ctx, pod, "operator", &out, "alioth-operator", "--version"); err != nil {
		found.Problem = err.Error()
		return found
	}
	found.Version = released(out.String())
	return found
}

func (c *cluster) nodeVersion(ctx context.Context, node string, pod *corev1.Pod) nodeVersion {
	found := nodeVersion{Node: node}
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel()
	var out bytes.Buffer
	err := c.exec.Run(ctx, pod, &out, "aliothctl", "version", "--of-node")
	var answer nodeVersion
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &answer)
	}
	if err != nil {
		found.Problem = err.Error()
		return found
	}
	found.Daemon, found.Plugin = released(answer.Daemon), released(answer.Plugin)
	if found.Daemon == "" {
		found.Problem = "the daemon does not tell its version"
	} else if found.Plugin == "" {
		found.Problem = cmp.Or(answer.Plugin, "the plugin does not tell its version")
	}
	return found
}

// release matches the version in the output of a program with --version.
var release = regexp.MustCompile(`\bv\d+\.\d+\.\d+[^\s,]*`)

// released returns the version in the output of a program, "" without one.
func released(text string) string { return release.FindString(text) }

// judge adds the reason to each version whose pair is not supported. It returns whether it found a
// problem. An unknown version is a problem.
func (v *versions) judge() (apart bool) {
	note := func(problem *string, err error) {
		if err != nil && *problem == "" {
			*problem = err.Error()
		}
		apart = apart || *problem != ""
	}
	known := slices.DeleteFunc(slices.Clone(v.Operators), func(o operatorVersion) bool { return o.Version == "" })
	for i := range v.Operators {
		operator := &v.Operators[i]
		if operator.Version == "" {
			note(&operator.Problem, errors.New("the operator does not tell its version"))
			continue
		}
		note(&operator.Problem, skew(ofClient, v.Client.Version, operator.Version))
	}
	for i := range v.Nodes {
		node := &v.Nodes[i]
		if len(known) == 0 {
			note(&node.Problem, errors.New("no operator tells its version"))
		}
		for _, operator := range known {
			note(&node.Problem, node.skew(operator.Version))
		}
	}
	return apart
}

// skew returns why the node's programs do not work with an operator; nil if they do.
func (n nodeVersion) skew(operator string) error {
	var plugin error
	if n.Plugin != "" {
		plugin = skew(ofPlugin, n.Plugin, operator)
	}
	if n.Daemon == "" {
		return plugin
	}
	return errors.Join(skew(ofDaemon, n.Daemon, operator), plugin)
}

func (v *versions) write(out io.Writer, format string) error {
	if format == options.JSON {
		return json.NewEncoder(out).Encode(v)
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "aliothctl\t%s\n", v.Client)
	for _, operator := range v.Operators {
		fmt.Fprintf(table, "operator %s\t%s\n", operator.Pod, cmp.Or(operator.Version, "unknown")+because(operator.Problem))
	}
	if len(v.Nodes) > 0 {
		fmt.Fprintf(table, "\nNODE\tDAEMON\tPLUGIN\tWORKS TOGETHER\n")
	}
	for _, node := range v.Nodes {
		fmt.Fprintf(
			table,
			"%s\t%s\t%s\t%s\n",
			node.Node,
			cmp.Or(node.Daemon, "unknown"),
			cmp.Or(node.Plugin, "unknown"),
			cmp.Or(node.Problem, "yes"),
		)
	}
	return table.Flush()
}

// because returns a problem as the end of a line.
func because(problem string) string {
	if problem == "" {
		return ""
	}
	return ": " + problem
}

// component is a program whose version may differ from the version of the operator.
type component string

// The components.
const (
	ofDaemon component = "daemon"
	ofPlugin component = "plugin"
	ofClient component = "aliothctl"
)

// skew returns why a program of a version does not work with an operator of another version;
// nil if the pair is supported. A daemon and a plugin may be one minor version older than the
// operator, because an upgrade begins with the operator. aliothctl may be one minor version
// older or newer. Programs of two major versions never work together (docs/install/versions.md).
func skew(part component, program, operator string) error {
	p, err := utilversion.ParseSemantic(program)
	if err != nil {
		return fmt.Errorf("the %s has no version that can be compared: %w", part, err)
	}
	o, err := utilversion.ParseSemantic(operator)
	if err != nil {
		return fmt.Errorf("the operator has no version that can be compared: %w", err)
	}
	newest := int64(0)
	if part == ofClient {
		newest = 1
	}
	switch ahead := int64(p.Minor()) - int64(o.Minor()); {
	case p.Major() != o.Major():
		return fmt.Errorf("%s %s has another major version than operator %s", part, program, operator)
	case ahead > newest:
		return fmt.Errorf(
			"%s %s is newer than operator %s: upgrade the operator first; during a way back, wait until it is replaced",
			part,
			program,
			operator,
		)
	case ahead < -1:
		return fmt.Errorf("%s %s is more than one minor version older than operator %s: upgrade it", part, program, operator)
	}
	return nil
}
