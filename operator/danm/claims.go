// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Claims releases the HostVNIClaims of networks that are gone. A network releases its own claims
// before it goes, so a claim without a network remains from a crash.
type Claims struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Store *store.Store
	// Feed notifies other controllers.
	Feed feed.Publisher
}

// RegisterClaims adds the controller.
func RegisterClaims(controllers feed.Controllers, f *feed.Feed, r *Claims) error {
	return controllers.Add("hostvniclaim", 1, r, feed.NewSource(f, allClaims,
		feed.On(func(_ store.ReadTx, old, now *multinet.HostVNIClaim) []feed.Request {
			return []feed.Request{feed.Now("", feed.Either(old, now).Name)}
		}),
		feed.On(func(tx store.ReadTx, old, now *multinet.Network) []feed.Request {
			if old == nil || now != nil && old.UID == now.UID {
				return nil
			}
			var all []feed.Request
			for _, claim := range multinet.HostVNIClaimsByNetwork(tx, old.UID) {
				all = append(all, feed.Now("", claim.Name))
			}
			return all
		}),
	))
}

func allClaims(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for claim := range multinet.HostVNIClaims(tx) {
		all = append(all, feed.Now("", claim.Name))
	}
	return all
}

// Reconcile implements reconcile.Reconciler.
func (r *Claims) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var claim *multinet.HostVNIClaim
	orphan := false
	r.Store.View(func(tx store.ReadTx) {
		if claim = multinet.GetHostVNIClaim(tx, request.Name); claim != nil {
			net := multinet.Get(tx, claim.Network)
			orphan = net == nil || net.UID != claim.NetworkUID
		}
	})
	if !orphan {
		return ctrl.Result{}, nil
	}
	if gone, err := r.gone(ctx, claim); err != nil || !gone {
		return ctrl.Result{}, err
	}
	ctrl.LoggerFrom(ctx).
		Info("VNI of a network that is gone released", "network", claim.Network.String(), "claim", claim.Name)
	return ctrl.Result{}, numbers(r.Client, r.Live, r.Store, r.Feed).Release(ctx, claim.Name, claim.UID)
}

// gone asks the API server whether the network of a claim is gone, because the store may
// lag behind. A claim of a kind that the operator does not know stays.
func (r *Claims) gone(ctx context.Context, claim *multinet.HostVNIClaim) (bool, error) {
	for _, kind := range outside.Networks {
		if kind.Group != claim.Network.Group || kind.Name != claim.Network.Kind {
			continue
		}
		network := kind.NewObject().(client.Object)
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: claim.Network.Namespace, Name: claim.Network.Name}, network)
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case meta.IsNoMatchError(err):
			return false, nil // its kind is missing; once the API has it, a term begins
		case err != nil:
			return false, fmt.Errorf("read %s: %w", claim.Network, err)
		}
		return string(network.GetUID()) != claim.NetworkUID, nil
	}
	return false, nil
}
