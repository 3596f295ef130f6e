// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Pauses before an object is processed again: doubled with every attempt from the
// first to the longest, for each object separately.
const (
	// errorPause and errorLongest are those after an error.
	errorPause, errorLongest = 20 * time.Millisecond, 30 * time.Second
	// stalePause and staleLongest are those after a write from an outdated cached
	// copy.
	stalePause, staleLongest = 100 * time.Millisecond, 5 * time.Second
)

// Controllers runs controllers.
type Controllers interface {
	// Add adds a controller with this number of workers. It starts once the store is
	// filled and this process leads.
	Add(name string, workers int, r reconcile.Reconciler, source *Source) error
}

// ManagerControllers are the controllers of a manager.
type ManagerControllers struct{ Manager manager.Manager }

// Add implements Controllers.
func (m ManagerControllers) Add(name string, workers int, r reconcile.Reconciler, source *Source) error {
	c, err := controller.New(name, m.Manager, controller.Options{
		Reconciler:              source.Serve(newPatient(r)),
		MaxConcurrentReconciles: workers,
		RateLimiter:             pauses(errorPause, errorLongest),
	})
	if err != nil {
		return fmt.Errorf("create controller %s: %w", name, err)
	}
	if err := c.Watch(source); err != nil {
		return fmt.Errorf("start the source of controller %s: %w", name, err)
	}
	return nil
}

func pauses(first, longest time.Duration) workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, longest)
}

// patient does not treat conflicts as errors: they are the normal sign that the cache
// is a moment behind the API.
type patient struct {
	inner reconcile.Reconciler
	stale workqueue.TypedRateLimiter[reconcile.Request]
}

func newPatient(inner reconcile.Reconciler) patient {
	return patient{inner: inner, stale: pauses(stalePause, staleLongest)}
}

// Reconcile implements reconcile.Reconciler.
func (p patient) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := p.inner.Reconcile(ctx, request)
	if !apierrors.IsConflict(err) {
		p.stale.Forget(request)
		return result, err
	}
	ctrl.LoggerFrom(ctx).V(1).Info("looked at an old copy, trying again", "cause", err.Error())
	return ctrl.Result{RequeueAfter: p.stale.When(request)}, nil
}
