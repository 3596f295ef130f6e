// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package collect reads the input of package verify: the API's objects, and the dump of
// every node's daemon, through the API server.
package collect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/remote"
	"github.com/alioth-net/alioth/cnid/inspect/verify"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
)

// readAgainAfter is the time between two readings.
const readAgainAfter = 2 * time.Second

// Collector reads one cluster.
type Collector struct {
	// AnswerWithin is the limit of a node's time to answer.
	AnswerWithin time.Duration

	api       client.Reader
	namespace string
	// ask requests the dump of the daemon in a pod.
	ask func(ctx context.Context, pod *corev1.Pod) (*nodestatus.Dump, error)
}

// New returns a Collector for the cluster of config, with Alioth in that namespace.
func New(config *rest.Config, namespace string) (*Collector, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(kinds.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register API kinds: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	// Without a logger the client would print a warning.
	api, err := client.New(config, client.Options{Scheme: scheme, Log: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	exec, err := remote.NewExecutor(config)
	if err != nil {
		return nil, err
	}
	return &Collector{
		AnswerWithin: DefaultAnswerWithin,
		api:          api,
		namespace:    namespace,
		ask: func(ctx context.Context, pod *corev1.Pod) (*nodestatus.Dump, error) {
			return dump(ctx, exec, pod)
		},
	}, nil
}

// Differences returns the differences that are in each of several readings, the last of
// them at least settle after the first: objects in creation or deletion differ only for a
// moment. It returns at once when no difference is left. With the name of a node, it
// reads that node only and returns its differences.
func (c *Collector) Differences(ctx context.Context, node string, settle time.Duration) ([]verify.Difference, error) {
	began := time.Now()
	found, err := c.read(ctx, node)
	if err != nil {
		return nil, err
	}
	for last := began; len(found) > 0 && last.Sub(began) < settle; {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("read again: %w", context.Cause(ctx))
		case <-time.After(min(readAgainAfter, settle)):
		}
		last = time.Now()
		again, err := c.read(ctx, node)
		if err != nil {
			return nil, err
		}
		found = stillThere(found, again)
	}
	return found, nil
}

// stillThere returns the differences of now that are also in before.
func stillThere(before, now []verify.Difference) []verify.Difference {
	return slices.DeleteFunc(now, func(d verify.Difference) bool { return !slices.ContainsFunc(before, d.SameAs) })
}

// read reads everything once and compares it.
func (c *Collector) read(ctx context.Context, only string) ([]verify.Difference, error) {
	s, err := store.New()
	if err != nil {
		return nil, err
	}
	in, err := c.objects(ctx, s)
	if err != nil {
		return nil, err
	}
	if in.Nodes, err = c.nodes(ctx, only); err != nil {
		return nil, err
	}
	var found []verify.Difference
	s.View(func(tx store.ReadTx) { found = verify.Compare(tx, in) })
	if only != "" {
		found = slices.DeleteFunc(found, func(d verify.Difference) bool { return d.Node != only })
	}
	return found, nil
}
