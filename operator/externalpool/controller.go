// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package externalpool checks ExternalPools against reserved ranges and against each
// other, counts their addresses, and publishes the grants of external IPs for
// admission.
package externalpool

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/vpc"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/store/rows/external"
)

// countsEvery bounds how often the count of one pool is written.
const countsEvery = 2 * time.Second

// Reconciler applies the decisions of decide.
type Reconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	Store  *store.Store
	Rules  vpc.Rules
	// Grants writes the grants for admission.
	Grants write.Grants
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("externalpool", 1, r, source(f, r.Rules.DefaultVPC))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request.Name != "" {
		if err := r.check(ctx, request.Name); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.publish(ctx)
}

// check writes the status of a pool.
func (r *Reconciler) check(ctx context.Context, name string) error {
	pool := &v1alpha1.ExternalPool{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	row := feed.Row(vpcs.ExternalPool, pool)
	if row == nil {
		return nil // package announce tells that
	}
	var d decision
	r.Store.View(func(tx store.ReadTx) { d = decide(tx, row, r.Rules) })
	before := pool.DeepCopy()
	pool.Status.Used = d.used
	pool.Status.ObservedGeneration = pool.Generation
	write.SetReady(&pool.Status.Conditions, pool.Generation, d.Verdict)
	return write.Status(ctx, r.Client, before, pool)
}

// source requests the grants at the start, and a pool when its addresses change. It
// requests all pools when a pool, a node, a ServiceCIDR or the default VPC changes,
// because that object may have caused a conflict.
func source(f *feed.Feed, defaultVPC string) *feed.Source {
	return feed.NewSource(f, func(tx store.ReadTx) []feed.Request { return append(everything(tx), feed.Now("", "")) },
		feed.On(func(tx store.ReadTx, old, now *external.Pool) []feed.Request {
			if old != nil && now != nil && old.Generation == now.Generation {
				return []feed.Request{feed.Now("", now.Name)}
			}
			return append(everything(tx), feed.Now("", ""))
		}),
		// A claimed address is in the store before its event.
		feed.On(func(_ store.ReadTx, old, now *external.Address) []feed.Request {
			return []feed.Request{feed.Later(countsEvery, "", feed.Either(old, now).Pool)}
		}),
		feed.On(func(tx store.ReadTx, _, _ *store.ServiceCIDR) []feed.Request { return everything(tx) }),
		feed.On(func(tx store.ReadTx, _, _ *store.Node) []feed.Request { return later(everything(tx)) }),
		feed.On(func(tx store.ReadTx, old, now *store.VPC) []feed.Request {
			if feed.Either(old, now).Name != defaultVPC {
				return nil
			}
			return later(everything(tx))
		}),
	)
}

func everything(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for _, pool := range external.ListPools(tx) {
		all = append(all, feed.Now("", pool.Name))
	}
	return all
}

// later delays requests, so that one covers several changes.
func later(requests []feed.Request) []feed.Request {
	for i := range requests {
		requests[i].After = countsEvery
	}
	return requests
}
