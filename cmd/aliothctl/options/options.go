// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options has the options that several commands of aliothctl share, and makes clients of
// the API server from them.
package options

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

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
)

// Formats of output.
const (
	Text = "text"
	JSON = "json"
	// YAML is a format of the commands that name it to AddFormat.
	YAML = "yaml"
)

// formatsOf is the annotation of the flag "output" with the formats of its command.
const formatsOf = "formats"

// AddKubeconfig adds the flag for the kubeconfig file.
func AddKubeconfig(cmd *cobra.Command, kubeconfig *string) {
	cmd.Flags().
		StringVar(kubeconfig, "kubeconfig", "", "kubeconfig file; default: $KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount")
}

// Errors of commands that have no credentials of a user.
var (
	ErrNoKubeconfig = errors.New("no kubeconfig found: set --kubeconfig or the environment variable KUBECONFIG")
	ErrDaemonsPod   = errors.New("this command needs a user's rights, which the daemon's pod does not have: " +
		"run it with your kubeconfig outside of the pod; status, map dump, drops --local and flows --local work here")
)

// RESTConfig reads the kubeconfig as kubectl does.
func RESTConfig(kubeconfig, socket string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, rules.WarnIfAllMissing = kubeconfig, false
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).
		ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, ErrNoKubeconfig
	case err != nil:
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	case isDaemons(config, socket):
		return nil, ErrDaemonsPod
	}
	return config, nil
}

// isDaemons reports whether a config has the daemon's own credentials: the ServiceAccount of a pod
// that has the daemon's socket. They carry none of the rights that commands need.
func isDaemons(config *rest.Config, socket string) bool {
	if config.BearerTokenFile != serviceAccountToken {
		return false
	}
	_, err := os.Stat(socket)
	return err == nil
}

// serviceAccountToken is where a pod has the token of its ServiceAccount.
const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// NewClient returns a client for the kinds that commands read and write, and for kinds of one
// command.
func NewClient(config *rest.Config, kinds ...func(*runtime.Scheme) error) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range append(kinds, corev1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme) {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register API kinds: %w", err)
		}
	}
	// Without a logger the client would print a warning.
	return client.New(config, client.Options{Scheme: scheme, Log: logr.FromSlogHandler(slog.DiscardHandler)})
}

// Complete lets a shell complete the values of flags.
func Complete(cmd *cobra.Command, kubeconfig *string) {
	formats := func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return cmd.Flags().Lookup("output").Annotations[formatsOf], cobra.ShellCompDirectiveNoFileComp
	}
	nodes := func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		config, err := RESTConfig(*kubeconfig, cniapi.DefaultSocket)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		api, err := NewClient(config)
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

// AddFormat adds the flag for the output format: text, json, and more formats of the command.
func AddFormat(cmd *cobra.Command, format *string, more ...string) {
	formats := append([]string{Text, JSON}, more...)
	last := len(formats) - 1
	words := strings.Join(formats[:last], ", ") + " or " + formats[last]
	cmd.Flags().StringVarP(format, "output", "o", *format, words)
	cmd.Flags().Lookup("output").Annotations = map[string][]string{formatsOf: formats}
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(formats, *format) {
			return fmt.Errorf("--output %q: want %s", *format, words)
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}
