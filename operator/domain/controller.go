// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package domain claims a number for each network outside of every VPC that pods are
// attached to. The number stands for the network in the tables of the nodes
// (docs/design/120).
package domain

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Reconciler applies the decisions of decide. The name of a request is the UID of a
// network.
type Reconciler struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Store *store.Store
	// Feed notifies other controllers.
	Feed feed.Publisher
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("domainclaim", 1, r, source(f))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	d, err := r.claim(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, surplus := range d.release {
		if err := r.numbers().Release(ctx, v1alpha1.DomainClaimName(surplus.Number), surplus.UID); err != nil {
			return ctrl.Result{}, err
		}
		ctrl.LoggerFrom(ctx).
			Info("number of a network released", "network", surplus.Network.String(), "number", surplus.Number)
	}
	return ctrl.Result{}, nil
}

func (r *Reconciler) numbers() claim.Numbers {
	return claim.Numbers{Kind: outside.DomainClaim.Kind, Client: r.Client, Live: r.Live, Store: r.Store, Feed: r.Feed}
}

// claim decides and claims the number that the decision asks for, until the decision asks
// for none. It ends, because every round either claims a number or excludes one.
func (r *Reconciler) claim(ctx context.Context, uid string) (d decision, err error) {
	var taken []uint32
	for {
		r.Store.View(func(tx store.ReadTx) { d, err = decide(tx, uid, taken) })
		if err != nil || d.claim == 0 {
			return d, err
		}
		network := v1alpha1.NetworkReference(d.network)
		err = r.numbers().Create(ctx, &v1alpha1.DomainClaim{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DomainClaimName(d.claim)},
			Spec:       v1alpha1.DomainClaimSpec{Number: int32(d.claim), Network: network},
		})
		switch {
		case apierrors.IsAlreadyExists(err):
			taken = append(taken, d.claim)
			continue
		case err != nil:
			return d, fmt.Errorf("claim number %d for %s: %w", d.claim, d.network, err)
		}
		ctrl.LoggerFrom(ctx).Info("number claimed", "network", d.network.String(), "number", d.claim)
	}
}

// source requests a network when it, its claims or its attachments change.
func source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(func(_ store.ReadTx, old, now *multinet.DomainClaim) []feed.Request {
			return of(feed.Either(old, now).Network.UID)
		}),
		feed.On(func(_ store.ReadTx, old, now *multinet.Claim) []feed.Request {
			if old != nil && now != nil {
				return nil // the network of a claim never changes
			}
			return of(feed.Either(old, now).Network.UID)
		}),
		feed.On(func(_ store.ReadTx, old, now *multinet.Network) []feed.Request {
			if old == nil || now != nil && now.UID == old.UID {
				return nil
			}
			return of(old.UID)
		}),
		feed.On(func(_ store.ReadTx, old, now *multinet.Definition) []feed.Request {
			if old == nil || now != nil && now.UID == old.UID {
				return nil
			}
			return of(old.UID)
		}),
	)
}

func of(uid string) []feed.Request {
	return []feed.Request{feed.Now("", uid)}
}

func everything(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for row := range multinet.DomainClaims(tx) {
		all = append(all, of(row.Network.UID)...)
	}
	for _, row := range multinet.Claims(tx) {
		all = append(all, of(row.Network.UID)...)
	}
	return all
}
