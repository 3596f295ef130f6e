// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podnetwork reports which PodNetworks pods can use, and which are in use.
package podnetwork

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

// usesEvery bounds how often one PodNetwork is examined because of pods.
const usesEvery = 2 * time.Second

// Reconciler applies the decisions of decide to the PodNetworks of one group.
type Reconciler struct {
	Group string
	// Client writes; its reads come from the informers.
	Client client.Client
	Store  store.Central
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add(Name(r.Group), 1, r, source(f))
}

// Name returns the name of the controller of a group.
func Name(group string) string { return "podnetwork." + group }

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	kind := ipamapi.PodNetworks[r.Group]
	object := kind.NewObject().(client.Object)
	if err := r.Client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	converted, err := kind.Row(object)
	row, ok := converted.(*nodeipam.PodNetwork)
	if err != nil || !ok {
		return ctrl.Result{}, fmt.Errorf("read PodNetwork %s: %w", request.Name, err)
	}
	var d decision
	r.Store.View(func(tx store.ReadTx) { d = decide(r.Store.Of(tx), row) })
	before := object.DeepCopyObject().(client.Object)
	to := statusOf(object)
	to.Status, to.AddressPrefixes = d.state, d.prefixes
	write.SetReady(&to.Conditions, object.GetGeneration(), d.Verdict)
	return ctrl.Result{}, write.Status(ctx, r.Client, before, object)
}

// statusOf returns the status of a PodNetwork of either group.
func statusOf(object client.Object) *multitenancyv1alpha1.PodNetworkStatus {
	if early, ok := object.(*acnv1alpha1.PodNetwork); ok {
		return &early.Status
	}
	return &object.(*multitenancyv1alpha1.PodNetwork).Status
}

// source requests a PodNetwork when one of its name in any group changes, when its VPC or
// subnet does, and when instances or pods begin or end to use it.
func source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(func(_ store.ReadTx, old, now *nodeipam.PodNetwork) []feed.Request {
			return []feed.Request{feed.Now("", feed.Either(old, now).Name)}
		}),
		feed.On(func(tx store.ReadTx, old, now *store.VPC) []feed.Request {
			if old != nil && now != nil && old.UID == now.UID && old.Ready == now.Ready && old.Deleting == now.Deleting {
				return nil
			}
			return ofVPC(tx, 0, feed.Either(old, now).Name)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Subnet) []feed.Request {
			if old != nil && now != nil && old.UID == now.UID && old.Ready == now.Ready && old.Generation == now.Generation &&
				old.Deleting == now.Deleting {
				return nil
			}
			return ofVPC(tx, 0, feed.Either(old, now).VPC)
		}),
		feed.On(func(_ store.ReadTx, old, now *nodeipam.Instance) []feed.Request {
			return append(ofInstance(old), ofInstance(now)...)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Address) []feed.Request {
			address := feed.Either(old, now)
			if !address.External || old != nil && now != nil {
				return nil
			}
			return ofVPC(tx, usesEvery, address.VPC)
		}),
	)
}

func everything(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for row := range nodeipam.PodNetworks(tx) {
		all = append(all, feed.Now("", row.Name))
	}
	return all
}

func ofVPC(tx store.ReadTx, after time.Duration, vpc string) []feed.Request {
	var all []feed.Request
	for _, row := range nodeipam.PodNetworksOfVPC(tx, vpc) {
		all = append(all, feed.Later(after, "", row.Name))
	}
	return all
}

// ofInstance requests the PodNetworks of an instance, which may be nil.
func ofInstance(row *nodeipam.Instance) []feed.Request {
	if row == nil {
		return nil
	}
	var all []feed.Request
	for _, one := range row.Interfaces {
		all = append(all, feed.Now("", one.PodNetwork))
	}
	for _, reserved := range row.Reserved {
		all = append(all, feed.Now("", reserved.PodNetwork))
	}
	return all
}
