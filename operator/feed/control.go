// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// staleAfter is the pause before an object is looked at again whose cached copy
// turned out to be out of date.
const staleAfter = 100 * time.Millisecond

// Control adds a controller to a manager. It starts once the store is filled
// and this process leads.
func Control(mgr manager.Manager, name string, workers int, r reconcile.Reconciler, source *Source) error {
	c, err := controller.New(name, mgr, controller.Options{
		Reconciler:              patient{r},
		MaxConcurrentReconciles: workers,
	})
	if err != nil {
		return fmt.Errorf("create controller %s: %w", name, err)
	}
	if err := c.Watch(source); err != nil {
		return fmt.Errorf("start the source of controller %s: %w", name, err)
	}
	return nil
}

// patient takes conflicts for what they are: the normal sign that the cache is
// a moment behind the API, not an error.
type patient struct{ inner reconcile.Reconciler }

// Reconcile implements reconcile.Reconciler.
func (p patient) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := p.inner.Reconcile(ctx, request)
	if apierrors.IsConflict(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("looked at an old copy, trying again", "cause", err.Error())
		return ctrl.Result{RequeueAfter: staleAfter}, nil
	}
	return result, err
}
