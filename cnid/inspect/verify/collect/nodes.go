// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/remote"
	"github.com/alioth-net/alioth/cnid/inspect/verify"
)

// DefaultAnswerWithin is enough for a node with many pods, through a busy API server.
const DefaultAnswerWithin = 20 * time.Second

// asksAtOnce limits how many nodes are read at the same time.
const asksAtOnce = 16

// nodes reads the daemons of all nodes, or of one.
func (c *Collector) nodes(ctx context.Context, only string) ([]verify.Node, error) {
	names, err := c.nodeNames(ctx, only)
	if err != nil {
		return nil, err
	}
	daemons, err := remote.Pods(ctx, c.api, c.namespace)
	if err != nil {
		return nil, err
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
	ctx, cancel := context.WithTimeout(ctx, c.AnswerWithin)
	defer cancel()
	dump, err := c.ask(ctx, daemon)
	if err != nil {
		node.Silent = err.Error()
		return node
	}
	node.Dump = dump
	return node
}

// dump runs `aliothctl dump` in a daemon's pod.
func dump(ctx context.Context, exec *remote.Executor, pod *corev1.Pod) (*nodestatus.Dump, error) {
	var out bytes.Buffer
	if err := exec.Run(ctx, pod, &out, "aliothctl", "dump"); err != nil {
		return nil, err
	}
	var dump nodestatus.Dump
	if err := json.Unmarshal(out.Bytes(), &dump); err != nil {
		return nil, fmt.Errorf("read the answer of pod %s: %w", pod.Name, err)
	}
	return &dump, nil
}
