// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote reaches the daemons of a cluster: it runs commands in their pods,
// through the API server, which authorizes the user.
package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// container is the container of the daemon's pod.
const container = "daemon"

// Labels select the daemon's pods.
func Labels() client.MatchingLabels {
	return client.MatchingLabels{"app.kubernetes.io/name": "alioth", "app.kubernetes.io/component": "daemon"}
}

// Pods returns the daemon's pod of each node that has one, by the node's name.
func Pods(ctx context.Context, api client.Reader, namespace string) (map[string]*corev1.Pod, error) {
	var pods corev1.PodList
	if err := api.List(ctx, &pods, client.InNamespace(namespace), Labels()); err != nil {
		return nil, fmt.Errorf("list the pods of alioth-cnid: %w", err)
	}
	daemons := map[string]*corev1.Pod{}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			daemons[pods.Items[i].Spec.NodeName] = &pods.Items[i]
		}
	}
	return daemons, nil
}

// Executor runs commands in pods.
type Executor struct {
	config *rest.Config
	rest   rest.Interface
}

// NewExecutor returns an Executor for the cluster of config.
func NewExecutor(config *rest.Config) (*Executor, error) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	return &Executor{config: config, rest: typed.CoreV1().RESTClient()}, nil
}

// Run runs a command in a daemon's pod, and writes its output. The error has the words of the
// command. It does not name the command line, because users did not give it.
func (e *Executor) Run(ctx context.Context, pod *corev1.Pod, stdout io.Writer, command ...string) error {
	return e.RunIn(ctx, pod, container, stdout, command...)
}

// RunIn does the same as Run, for a container of any pod of Alioth.
func (e *Executor) RunIn(
	ctx context.Context,
	pod *corev1.Pod,
	container string,
	stdout io.Writer,
	command ...string,
) error {
	options := &corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}
	url := e.rest.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(options, scheme.ParameterCodec).
		URL()
	websocket, err := remotecommand.NewWebSocketExecutor(e.config, "GET", url.String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(e.config, "POST", url)
	if err != nil {
		return err
	}
	either, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	err = either.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: &stderr})
	return failed(pod.Name, err, stderr.String())
}

// failed returns the error of a command that ended with err after it wrote words to its
// standard error.
func failed(pod string, err error, words string) error {
	if err == nil {
		return nil
	}
	words = strings.TrimPrefix(strings.TrimSpace(words), "Error: ")
	if words == "" {
		return fmt.Errorf("pod %s gives no answer: %w", pod, err)
	}
	return &failure{words, err}
}

// failure is the error of a command that said why it failed.
type failure struct {
	words string
	cause error
}

// Error returns the words.
func (f *failure) Error() string { return f.words }

// Unwrap returns the cause, which has the exit status.
func (f *failure) Unwrap() error { return f.cause }
