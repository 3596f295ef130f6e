// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenantconfig reports which TenantConfig serves, and which parts of it can't be used. It
// publishes the offer of the serving one. Admission judges TenantNetworks by this offer.
package tenantconfig

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Reconciler applies the decisions of decide to the TenantConfigs of one group.
type Reconciler struct {
	Kind outside.Config
	// Client writes; its reads come from the informers.
	Client client.Client
	Store  *store.Store
	Grants write.Grants
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add(Name(r.Kind), 1, r, source(f, r.Kind.Group))
}

// Name returns the name of the controller of a kind.
func Name(kind outside.Config) string { return kind.Name + "." + kind.Group }

// Reconcile implements reconcile.Reconciler. It publishes the offer before it writes the
// status.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	offered := &v1alpha1.AdmissionGrants{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.TenantNetworkGrants}}
	r.Store.View(func(tx store.ReadTx) { offered.TenantNetworks = offer(multinet.ServingTenantConfig(tx)) })
	if err := r.Grants.Write(ctx, offered); err != nil || request.Name == "" {
		return ctrl.Result{}, err
	}
	config := r.Kind.NewObject().(client.Object)
	if err := r.Client.Get(ctx, request.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var d decision
	r.Store.View(func(tx store.ReadTx) { d = decide(tx, r.Kind.Convert(config)) })
	before := config.DeepCopyObject().(client.Object)
	to := r.Kind.Status(config)
	to.ObservedGeneration, to.Devices = config.GetGeneration(), d.devices
	write.SetReady(&to.Conditions, config.GetGeneration(), d.Verdict)
	return ctrl.Result{}, write.Status(ctx, r.Client, before, config)
}

// source requests a TenantConfig when it changes, and all of them when one is added or removed:
// another one may serve then. It requests the offer at the start and without any TenantConfig,
// because the published offer may come from a deleted object.
func source(f *feed.Feed, group string) *feed.Source {
	everything := func(tx store.ReadTx) []feed.Request { return append(inGroup(tx, group), feed.Now("", "")) }
	return feed.NewSource(f, everything,
		feed.On(func(tx store.ReadTx, old, now *multinet.TenantConfig) []feed.Request {
			if old == nil || now == nil || old.UID != now.UID {
				return everything(tx)
			}
			if now.Group != group {
				// A pass of this controller may be about to publish the offer of the older row.
				return []feed.Request{feed.Now("", "")}
			}
			return []feed.Request{feed.Now("", now.Name)} // and the offer with it
		}),
	)
}

func inGroup(tx store.ReadTx, group string) []feed.Request {
	var all []feed.Request
	for config := range multinet.TenantConfigs(tx) {
		if config.Group == group {
			all = append(all, feed.Now("", config.Name))
		}
	}
	return all
}
