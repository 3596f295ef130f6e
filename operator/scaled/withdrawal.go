// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// Withdrawal takes back the mark that all Services have been judged, while the operator judges
// none. Otherwise nodes that begin to use ScaledEndpoints later would begin with old verdicts. The
// objects stay, for nodes that still use them.
type Withdrawal struct {
	Client client.Client
	Store  *store.Store
}

// RegisterWithdrawal adds the controller.
func RegisterWithdrawal(controllers feed.Controllers, f *feed.Feed, w *Withdrawal) error {
	claims := func(tx store.ReadTx) (requests []feed.Request) {
		for row := range scaled.All(tx) {
			requests = append(requests, claimOf(row)...)
		}
		return requests
	}
	return controllers.Add(
		"scaledendpoint",
		1,
		w,
		feed.NewSource(f, claims, feed.On(func(_ store.ReadTx, _, now *scaled.Endpoint) []feed.Request {
			return claimOf(now)
		})),
	)
}

// claimOf requests a ScaledEndpoint that reports that all have been judged.
func claimOf(row *scaled.Endpoint) []feed.Request {
	if versionOf(row) == 0 {
		return nil
	}
	return []feed.Request{feed.Now("", row.Name)}
}

// Reconcile implements reconcile.Reconciler. The request names a ScaledEndpoint.
func (w *Withdrawal) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var held *scaled.Endpoint
	w.Store.View(func(tx store.ReadTx) { held = scaled.Get(tx, request.Name) })
	if versionOf(held) == 0 {
		return ctrl.Result{}, nil
	}
	changed := object(held)
	changed.UID, changed.ResourceVersion, changed.Spec.Head.AllJudged = types.UID(held.UID), held.ResourceVersion, 0
	if err := client.IgnoreNotFound(w.Client.Update(ctx, changed)); err != nil {
		return ctrl.Result{}, fmt.Errorf("ScaledEndpoint %s: %w", held.Name, err)
	}
	return ctrl.Result{}, nil
}
