// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network reports for each Network whether its tenant's pods can use it, and
// delays its deletion while a pod does. It never changes Networks of a type that
// Alioth does not serve.
package network

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Reconciler applies the decision of decide.
type Reconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	Store  *store.Store
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("network", 1, r, source(f))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	net := &arktosv1.Network{}
	if err := r.Client.Get(ctx, request.NamespacedName, net); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !tenancy.Served(net.Spec.Type) {
		_, err := write.RemoveFinalizer(ctx, r.Client, net) // it may have been served before
		return ctrl.Result{}, err
	}
	if err := write.AddFinalizer(ctx, r.Client, net); err != nil {
		return ctrl.Result{}, err
	}
	row := feed.Row(vpcs.Network, net)
	if row == nil {
		return ctrl.Result{}, nil // package announce tells that
	}
	var d decision
	r.Store.View(func(tx store.ReadTx) {
		if ns := store.GetNamespace(tx, net.Namespace); ns != nil {
			row.Tenant = ns.Tenant
		}
		d = decide(tx, row)
	})
	if d.unused {
		_, err := write.RemoveFinalizer(ctx, r.Client, net)
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.writeStatus(ctx, net, d)
}
