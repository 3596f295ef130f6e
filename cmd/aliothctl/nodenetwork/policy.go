// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenetwork

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"k8s.io/utils/clock"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/policyhandler"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds"
)

// Errors of nodenetwork policy handle.
var (
	// errDegraded reports that a node has not reached the state that a policy desires.
	errDegraded = errors.New("a policy is degraded")
	errNotOnce  = errors.New(
		"set --once: the operator, and with the chart's value nodeNetworkState.enabled each node's daemon, handle policies continuously",
	)
)

// Command returns the command "nodenetwork" with those below it.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodenetwork",
		Short: "Bring policies of the nodes' own networks to nodes",
	}
	cmd.AddCommand(policyCommand())
	return cmd
}

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Bring policies of the network state to nodes",
	}
	cmd.AddCommand(policyHandleCommand())
	return cmd
}

// FormerPolicyCommand returns the command "policy", the former name of "nodenetwork policy". The
// name could mean network policies of pods too. It goes with the next release.
func FormerPolicyCommand() *cobra.Command {
	cmd := policyCommand()
	cmd.Hidden = true
	cmd.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		root := cmd.Root().CommandPath()
		now := root + " nodenetwork" + strings.TrimPrefix(cmd.CommandPath(), root)
		cmd.PrintErrf("%s is deprecated: its name is %s now\n", cmd.CommandPath(), now)
	}
	return cmd
}

// policyOptions are the options of nodenetwork policy handle.
type policyOptions struct {
	kubeconfig string
	once       bool
	nodes      []string
}

func policyHandleCommand() *cobra.Command {
	var o policyOptions
	cmd := &cobra.Command{
		Use:   "handle --once",
		Short: "Write what policies make of nodes, without Alioth's operator",
		Long: `Write what NodeNetConfPolicies and NodeNetworkConfigurationPolicies make of nodes:
the enactments, the desired states of NodeNetworkStates, and the status of each
policy. It needs the CRDs, and no chart. Do not run it while an operator handles
policies: together they could let more nodes change than may.

The command ends when only nodes have something to do. A node has the desired state
once its state handler has run. So run both in turn until no policy is Progressing.

It prints the status of each policy.
Exit status: 0 if none is Degraded, 1 if one is, 2 if the cluster can't be read or
written.`,
		Example: `  aliothctl nodenetwork policy handle --once
  aliothctl nodenetwork policy handle --once --node worker-1 --node worker-2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !o.once {
				return errNotOnce
			}
			return o.handle(cmd)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.once, "once", false, "handle policies until only nodes have something to do")
	flags.StringSliceVar(&o.nodes, "node", nil, "bring policies to this node only; may be repeated (default all nodes)")
	options.AddKubeconfig(cmd, &o.kubeconfig)
	options.Complete(cmd, &o.kubeconfig)
	return cmd
}

func (o *policyOptions) handle(cmd *cobra.Command) error {
	api, err := policyClient(o.kubeconfig)
	if err != nil {
		return err
	}
	names, err := namesOfNodes(cmd.Context(), api, o.nodes)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	if err := policyhandler.Once(cmd.Context(), policyConfig(api, log), names); err != nil {
		return err
	}
	return reportPolicies(cmd, api)
}

// policyClient returns a client for all kinds that policies need.
func policyClient(kubeconfig string) (*kube.Client, error) {
	config, err := options.RESTConfig(kubeconfig, cniapi.DefaultSocket)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register API kinds: %w", err)
	}
	return kube.New(config, scheme)
}

// policyConfig returns the configuration for Once.
func policyConfig(api *kube.Client, log *slog.Logger) policyhandler.Config {
	return policyhandler.Config{
		API: api, Clock: clock.RealClock{}, Log: log,
		Node: func(ctx context.Context, name string) (*corev1.Node, error) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			return node, api.Get(ctx, node)
		},
		Nodes: func(ctx context.Context) ([]corev1.Node, error) {
			var list corev1.NodeList
			err := api.List(ctx, &list, "", "")
			return list.Items, err
		},
	}
}

// namesOfNodes returns the requested nodes, which must exist, or all nodes.
func namesOfNodes(ctx context.Context, api *kube.Client, asked []string) ([]string, error) {
	var list corev1.NodeList
	if err := api.List(ctx, &list, "", ""); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Name)
	}
	for _, name := range asked {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("the cluster has no node %s; list them with: kubectl get nodes", name)
		}
	}
	if len(asked) > 0 {
		return asked, nil
	}
	return all, nil
}
