// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writes counts and times the writes of controllers to the API. A claim is an Address
// or VNIClaim that was created, so claims have no count of their own.
type writes struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newWrites(registry prometheus.Registerer) (*writes, error) {
	w := &writes{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "alioth_operator_writes_total",
			Help: "Writes to the API server by controller, kind, verb and result: ok; exists (another object has that name); " +
				"conflict (an old copy, or another object of that name); gone; refused (invalid or forbidden); " +
				"late (the lease was not held); error (the outcome is unknown).",
		}, []string{"controller", "kind", "verb", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "alioth_operator_write_duration_seconds",
			Help:    "Time of writes to the API server in seconds by kind and verb, whatever their result.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"kind", "verb"}),
	}
	return w, errors.Join(registry.Register(w.total), registry.Register(w.duration))
}

// of returns a client whose writes are counted for a controller.
func (w *writes) of(controller string, inner client.Client) client.Client {
	return &writer{Client: inner, counts: w, controller: controller}
}

type writer struct {
	client.Client
	counts     *writes
	controller string
}

func (w *writer) count(object any, subresource, verb string, write func() error) error {
	kind := reflect.TypeOf(object).Elem().Name() + subresource
	began := time.Now()
	err := write()
	w.counts.duration.WithLabelValues(kind, verb).Observe(time.Since(began).Seconds())
	w.counts.total.WithLabelValues(w.controller, kind, verb, resultOf(err)).Inc()
	return err
}

func resultOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case apierrors.IsAlreadyExists(err):
		return "exists"
	case apierrors.IsConflict(err):
		return "conflict"
	case apierrors.IsNotFound(err):
		return "gone"
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		return "refused"
	case errors.Is(err, errNotLeading):
		return "late"
	}
	return "error"
}

// Create implements client.Writer.
func (w *writer) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return w.count(object, "", "create", func() error { return w.Client.Create(ctx, object, options...) })
}

// Delete implements client.Writer.
func (w *writer) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return w.count(object, "", "delete", func() error { return w.Client.Delete(ctx, object, options...) })
}

// Update implements client.Writer.
func (w *writer) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return w.count(object, "", "update", func() error { return w.Client.Update(ctx, object, options...) })
}

// Patch implements client.Writer.
func (w *writer) Patch(
	ctx context.Context,
	object client.Object,
	patch client.Patch,
	options ...client.PatchOption,
) error {
	return w.count(object, "", "patch", func() error { return w.Client.Patch(ctx, object, patch, options...) })
}

// Status implements client.StatusClient.
func (w *writer) Status() client.SubResourceWriter {
	return &statusWriter{SubResourceWriter: w.Client.Status(), writer: w}
}

type statusWriter struct {
	client.SubResourceWriter
	writer *writer
}

// Update implements client.SubResourceWriter.
func (w *statusWriter) Update(
	ctx context.Context,
	object client.Object,
	options ...client.SubResourceUpdateOption,
) error {
	return w.writer.count(
		object,
		"/status",
		"update",
		func() error { return w.SubResourceWriter.Update(ctx, object, options...) },
	)
}

// Patch implements client.SubResourceWriter.
func (w *statusWriter) Patch(
	ctx context.Context,
	object client.Object,
	patch client.Patch,
	options ...client.SubResourcePatchOption,
) error {
	return w.writer.count(
		object,
		"/status",
		"patch",
		func() error { return w.SubResourceWriter.Patch(ctx, object, patch, options...) },
	)
}
