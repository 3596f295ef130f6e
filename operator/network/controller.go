// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network reports for each Network whether its tenant's pods can use it, and
// delays its deletion while a pod does. It never changes Networks of a type that
// Alioth does not serve.
package network

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/tenancy"
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
		return ctrl.Result{}, r.letGo(ctx, net) // it may have been served before
	}
	if net.DeletionTimestamp.IsZero() && controllerutil.AddFinalizer(net, v1alpha1.Finalizer) {
		if err := r.Client.Update(ctx, net); err != nil {
			return ctrl.Result{}, fmt.Errorf("add finalizer to Network %s: %w", request, err)
		}
	}
	row, err := kinds.Network.Convert(net)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Network %s: %w", request, err)
	}
	var d decision
	r.Store.View(func(tx store.ReadTx) {
		if ns := store.GetNamespace(tx, net.Namespace); ns != nil {
			row.Tenant = ns.Tenant
		}
		d = decide(tx, row)
	})
	if d.unused {
		return ctrl.Result{}, r.letGo(ctx, net)
	}
	return ctrl.Result{}, r.writeStatus(ctx, net, d)
}

func (r *Reconciler) letGo(ctx context.Context, net *arktosv1.Network) error {
	if !controllerutil.RemoveFinalizer(net, v1alpha1.Finalizer) {
		return nil
	}
	if err := r.Client.Update(ctx, net); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer of Network %s/%s: %w", net.Namespace, net.Name, err)
	}
	return nil
}
