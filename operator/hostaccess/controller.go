// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostaccess publishes the grants of HostAccess objects for admission, and
// confirms them in the status of these objects.
package hostaccess

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

// Reconciler applies the decisions of grants.
type Reconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	Store  *store.Store
	// Grants writes the grants for admission.
	Grants write.Grants
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("hostaccess", 1, r, source(f))
}

// Reconcile implements reconcile.Reconciler. It publishes the grants before it writes
// the status.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	granted := &v1alpha1.AdmissionGrants{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HostAccessGrants}}
	var tooMany map[string]bool
	r.Store.View(func(tx store.ReadTx) { granted.HostAccess, tooMany = grants(tx) })
	if err := r.Grants.Write(ctx, granted); err != nil {
		return ctrl.Result{}, err
	}
	if request.Name == "" {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.confirm(ctx, request.Name, tooMany[request.Name])
}

// confirm writes the status of an object.
func (r *Reconciler) confirm(ctx context.Context, name string, tooMany bool) error {
	object := &v1alpha1.HostAccess{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	var row *external.HostAccess
	r.Store.View(func(tx store.ReadTx) { row = external.GetHostAccess(tx, name) })
	if row == nil || row.Generation != object.Generation {
		return nil // its event has come, or is about to
	}
	before := object.DeepCopy()
	object.Status.ObservedGeneration = object.Generation
	write.SetReady(&object.Status.Conditions, object.Generation, decide(row, tooMany))
	return write.Status(ctx, r.Client, before, object)
}

// source requests the grants at the start, because published grants may come from deleted objects.
// It requests all objects when the grant of one of them changes: others may grant too much beside
// it.
func source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f,
		everything,
		feed.On(func(tx store.ReadTx, old, now *external.HostAccess) []feed.Request {
			if old != nil && now != nil && old.Generation == now.Generation && old.Deleting == now.Deleting {
				return []feed.Request{feed.Now("", now.Name)}
			}
			return everything(tx)
		}),
	)
}

func everything(tx store.ReadTx) []feed.Request {
	all := []feed.Request{feed.Now("", "")}
	for _, row := range external.ListHostAccesses(tx) {
		all = append(all, feed.Now("", row.Name))
	}
	return all
}
