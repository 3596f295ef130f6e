// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/cnid/verify"
)

const (
	// answerWithin bounds how long a node is waited for.
	answerWithin = 20 * time.Second
	// asksAtOnce bounds how many nodes are asked at the same time.
	asksAtOnce = 16
	// daemonContainer is the container of the daemon's pod.
	daemonContainer = "daemon"
)

// daemonLabels select the daemon's pods.
func daemonLabels() client.MatchingLabels {
	return client.MatchingLabels{"app.kubernetes.io/name": "alioth", "app.kubernetes.io/component": "daemon"}
}

// nodes asks the daemons of all nodes, or of one.
func (c *Collector) nodes(ctx context.Context, only string) ([]verify.Node, error) {
	names, err := c.nodeNames(ctx, only)
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := c.api.List(ctx, &pods, client.InNamespace(c.namespace), daemonLabels()); err != nil {
		return nil, fmt.Errorf("list the pods of alioth-cnid: %w", err)
	}
	daemons := map[string]*corev1.Pod{}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			daemons[pods.Items[i].Spec.NodeName] = &pods.Items[i]
		}
	}
	answers := make([]verify.Node, len(names))
	slots := make(chan struct{}, asksAtOnce)
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			answers[i] = c.node(ctx, name, daemons[name])
		})
	}
	group.Wait()
	return answers, ctx.Err()
}

// nodeNames returns the nodes that Alioth serves.
func (c *Collector) nodeNames(ctx context.Context, only string) ([]string, error) {
	var nodes corev1.NodeList
	if err := c.api.List(ctx, &nodes, client.MatchingLabels{corev1.LabelOSStable: "linux"}); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var names []string
	for i := range nodes.Items {
		if name := nodes.Items[i].Name; only == "" || name == only {
			names = append(names, name)
		}
	}
	if only != "" && len(names) == 0 {
		return nil, fmt.Errorf("there is no node %q that runs Linux", only)
	}
	return names, nil
}

func (c *Collector) node(ctx context.Context, name string, daemon *corev1.Pod) verify.Node {
	node := verify.Node{Name: name}
	if daemon == nil {
		node.Silent = "it has no pod in namespace " + c.namespace
		return node
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	dump, err := c.ask(ctx, daemon)
	if err != nil {
		node.Silent = err.Error()
		return node
	}
	node.Dump = dump
	return node
}

// executor runs commands in pods.
type executor struct {
	config *rest.Config
	rest   rest.Interface
}

func newExecutor(config *rest.Config) (*executor, error) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	return &executor{config: config, rest: typed.CoreV1().RESTClient()}, nil
}

// dump runs `aliothctl dump` in a daemon's pod.
func (e *executor) dump(ctx context.Context, pod *corev1.Pod) (*nodestatus.Dump, error) {
	out, err := e.run(ctx, pod, "aliothctl", "dump")
	if err != nil {
		return nil, fmt.Errorf("run aliothctl dump in pod %s: %w", pod.Name, err)
	}
	var dump nodestatus.Dump
	if err := json.Unmarshal(out, &dump); err != nil {
		return nil, fmt.Errorf("read the answer of pod %s: %w", pod.Name, err)
	}
	return &dump, nil
}

func (e *executor) run(ctx context.Context, pod *corev1.Pod, command ...string) ([]byte, error) {
	url := e.rest.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: daemonContainer, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	websocket, err := remotecommand.NewWebSocketExecutor(e.config, "GET", url.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(e.config, "POST", url)
	if err != nil {
		return nil, err
	}
	either, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	if err := either.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}); err != nil {
		if said := strings.TrimSpace(stderr.String()); said != "" {
			return nil, fmt.Errorf("%w: %s", err, said)
		}
		return nil, err
	}
	return stdout.Bytes(), nil
}
