// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/inspect/remote"
)

// access is how a command reaches the cluster.
type access struct{ kubeconfig, namespace string }

func defaultAccess() access { return access{namespace: "alioth-system"} }

// addFlags adds the flags of every command that uses the API server.
func (a *access) addFlags(cmd *cobra.Command) {
	addKubeconfig(cmd, &a.kubeconfig)
	cmd.Flags().StringVarP(&a.namespace, "namespace", "n", a.namespace, "namespace in which Alioth is installed")
}

func addKubeconfig(cmd *cobra.Command, kubeconfig *string) {
	cmd.Flags().StringVar(kubeconfig, "kubeconfig", "", "kubeconfig file; default: $KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount")
}

// Errors of commands that have no credentials of a user.
var (
	errNoKubeconfig = errors.New("no kubeconfig found: set --kubeconfig or the environment variable KUBECONFIG")
	errDaemonsPod   = errors.New("this command needs a user's rights, which the daemon's pod does not have: " +
		"run it with your kubeconfig outside of the pod; status, map dump, drops --local and flows --local work here")
)

// restConfig reads the kubeconfig as kubectl does.
func restConfig(kubeconfig, socket string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, rules.WarnIfAllMissing = kubeconfig, false
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errNoKubeconfig
	case err != nil:
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	case isDaemons(config, socket):
		return nil, errDaemonsPod
	}
	return config, nil
}

// isDaemons reports whether a config has the daemon's own credentials, which carry
// none of the rights that commands need: those of the ServiceAccount of a pod that
// has the daemon's socket.
func isDaemons(config *rest.Config, socket string) bool {
	if config.BearerTokenFile != serviceAccountToken {
		return false
	}
	_, err := os.Stat(socket)
	return err == nil
}

// serviceAccountToken is where a pod has the token of its ServiceAccount.
const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// cluster reaches the daemons through the API server.
type cluster struct {
	api       client.Client
	exec      *remote.Executor
	namespace string
}

func (a *access) open() (*cluster, error) {
	config, err := restConfig(a.kubeconfig, cniapi.DefaultSocket)
	if err != nil {
		return nil, err
	}
	exec, err := remote.NewExecutor(config)
	if err != nil {
		return nil, err
	}
	api, err := newClient(config)
	return &cluster{api: api, exec: exec, namespace: a.namespace}, err
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), eventsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register API kinds: %w", err)
	}
	// Without a logger the client would print a warning.
	return client.New(config, client.Options{Scheme: scheme, Log: logr.FromSlogHandler(slog.DiscardHandler)})
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

// onNode adds --node to a command that shows the node on which it runs: for another
// node, the same command runs in the daemon's pod there.
func onNode(cmd *cobra.Command) {
	var node string
	reach, here := defaultAccess(), cmd.RunE
	cmd.Flags().StringVar(&node, "node", node, "show this node, through the API server, instead of the node on which the command runs")
	reach.addFlags(cmd)
	complete(cmd, &reach.kubeconfig)
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

// complete lets a shell complete the values of flags.
func complete(cmd *cobra.Command, kubeconfig *string) {
	formats := cobra.FixedCompletions([]cobra.Completion{asText, asJSON}, cobra.ShellCompDirectiveNoFileComp)
	nodes := func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		config, err := restConfig(*kubeconfig, cniapi.DefaultSocket)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		api, err := newClient(config)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var list corev1.NodeList
		if err := api.List(cmd.Context(), &list); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []cobra.Completion
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	for flag, values := range map[string]cobra.CompletionFunc{"output": formats, "node": nodes} {
		if cmd.Flags().Lookup(flag) == nil {
			continue
		}
		if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
			panic(err) // the flag was registered twice
		}
	}
}

// addFormat adds the flag for the output format.
func addFormat(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", *format, "text or json")
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{asText, asJSON}, *format) {
			return fmt.Errorf("--output %q: want %s or %s", *format, asText, asJSON)
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}
