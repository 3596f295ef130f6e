// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sharedservice reports in the status of each SharedService whether pods of
// every VPC can use the Service that it names.
package sharedservice

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
)

// Reconciler applies the decisions of decide.
type Reconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	Store  *store.Store
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("sharedservice", 1, r, source(f))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	shared := &v1alpha1.SharedService{}
	if err := r.Client.Get(ctx, request.NamespacedName, shared); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var d decision
	r.Store.View(func(tx store.ReadTx) { d = decide(tx, shared.Spec.Namespace, shared.Spec.Name) })
	return ctrl.Result{}, r.writeStatus(ctx, shared, d)
}
