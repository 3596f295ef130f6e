// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/inspect/remote"
)

// access is how a command reaches the cluster.
type access struct{ kubeconfig, namespace string }

func defaultAccess() access { return access{namespace: "alioth-system"} }

// addFlags adds the flags of every command that uses the API server.
func (a *access) addFlags(cmd *cobra.Command) {
	options.AddKubeconfig(cmd, &a.kubeconfig)
	cmd.Flags().StringVarP(&a.namespace, "namespace", "n", a.namespace, "namespace in which Alioth is installed")
}

// cluster reaches the daemons through the API server.
type cluster struct {
	api       client.Client
	exec      *remote.Executor
	namespace string
}

func (a *access) open() (*cluster, error) {
	config, err := options.RESTConfig(a.kubeconfig, cniapi.DefaultSocket)
	if err != nil {
		return nil, err
	}
	exec, err := remote.NewExecutor(config)
	if err != nil {
		return nil, err
	}
	api, err := options.NewClient(config)
	return &cluster{api: api, exec: exec, namespace: a.namespace}, err
}

// daemons returns the daemon's pods by node: of all nodes, or of one.
func (c *cluster) daemons(ctx context.Context, node string) (map[string]*corev1.Pod, error) {
	pods, err := remote.Pods(ctx, c.api, c.namespace)
	if err != nil || node == "" {
		return pods, err
	}
	if pods[node] == nil {
		return nil, fmt.Errorf("node %s has no pod of alioth-cnid in namespace %s", node, c.namespace)
	}
	return map[string]*corev1.Pod{node: pods[node]}, nil
}

// runOn runs aliothctl itself in the daemon's pod of a node.
func (c *cluster) runOn(ctx context.Context, node string, out io.Writer, arguments ...string) error {
	pods, err := c.daemons(ctx, node)
	if err != nil {
		return err
	}
	return c.exec.Run(ctx, pods[node], out, append([]string{"aliothctl"}, arguments...)...)
}

// onNode adds --node to a command that shows the node that it runs on: for another node, the same
// command runs in the daemon's pod there.
func onNode(cmd *cobra.Command) {
	var node string
	reach, here := defaultAccess(), cmd.RunE
	cmd.Flags().
		StringVar(&node, "node", node, "show this node, through the API server, instead of the node on which the command runs")
	reach.addFlags(cmd)
	options.Complete(cmd, &reach.kubeconfig)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if node == "" {
			err := here(cmd, args)
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w\nwith --node NAME the command shows a node from anywhere", err)
			}
			return err
		}
		c, err := reach.open()
		if err != nil {
			return err
		}
		var words []string
		for at := cmd; at.HasParent(); at = at.Parent() {
			words = append(words, at.Name())
		}
		slices.Reverse(words)
		if format := cmd.Flags().Lookup("output"); format != nil {
			words = append(words, "--output="+format.Value.String())
		}
		if err := c.runOn(cmd.Context(), node, cmd.OutOrStdout(), words...); err != nil {
			return fmt.Errorf("node %s: %w", node, err)
		}
		return nil
	}
}
