// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"log/slog"
	"sync/atomic"

	"k8s.io/utils/clock"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

// API sends the requests of the handlers to the API server. A kube.Client implements it. Get and
// List must return the objects of the API server, and not the objects of a cache. Its methods may
// be called from any goroutine.
type API interface {
	Create(ctx context.Context, object kube.Object) error
	Patch(ctx context.Context, object kube.Object, kind types.PatchType, data []byte, subresource ...string) error
	Delete(ctx context.Context, object kube.Object, uid types.UID) error
	List(ctx context.Context, list runtime.Object, namespace, fields string) error
	Get(ctx context.Context, object kube.Object) error
}

// Config holds the dependencies of the handlers. All fields are required, except where a function
// says that it does not need one.
type Config struct {
	API API
	// Store has the rows of policies, of enactments and of states. A daemon's store needs the
	// rows of its own node only.
	Store *store.Store
	// Node returns a node. The handler uses its labels and taints. For a missing node the error
	// is apierrors.IsNotFound. A Handler needs it.
	Node func(ctx context.Context, name string) (*corev1.Node, error)
	// Current returns the current state of the node as its kernel has it, which the reported one
	// follows a moment later. nil where nobody can read it: then the reported one counts.
	Current func(ctx context.Context) (map[string]any, error)
	// Nodes returns all nodes. Rollouts need it.
	Nodes func(ctx context.Context) ([]corev1.Node, error)
	Clock clock.PassiveClock
	Log   *slog.Logger
}

// requests bounds each request to the API server, and counts the writes that it accepted.
type requests struct {
	api     API
	written atomic.Int64
}

// requestsOf returns an API as requests, and requests as they are.
func requestsOf(api API) *requests {
	if r, ok := api.(*requests); ok {
		return r
	}
	return &requests{api: api}
}

// Create implements API.
func (r *requests) Create(ctx context.Context, object kube.Object) error {
	return r.write(ctx, func(ctx context.Context) error { return r.api.Create(ctx, object) })
}

// Patch implements API.
func (r *requests) Patch(
	ctx context.Context,
	object kube.Object,
	kind types.PatchType,
	data []byte,
	subresource ...string,
) error {
	return r.write(ctx, func(ctx context.Context) error { return r.api.Patch(ctx, object, kind, data, subresource...) })
}

// Delete implements API.
func (r *requests) Delete(ctx context.Context, object kube.Object, uid types.UID) error {
	return r.write(ctx, func(ctx context.Context) error { return r.api.Delete(ctx, object, uid) })
}

// List implements API.
func (r *requests) List(ctx context.Context, list runtime.Object, namespace, fields string) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	return r.api.List(ctx, list, namespace, fields)
}

// Get implements API.
func (r *requests) Get(ctx context.Context, object kube.Object) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	return r.api.Get(ctx, object)
}

func (r *requests) write(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	err := request(ctx)
	if err == nil {
		r.written.Add(1)
	}
	return err
}
