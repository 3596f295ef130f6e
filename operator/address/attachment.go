// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/rollcall"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Attachments deletes the AttachmentClaims of pods that are gone, since the deletion of a pod may
// orphan its claims. It releases claims that are being deleted: their finalizer waits for the node.
type Attachments struct {
	// Live reads from the API server.
	Live    client.Reader
	Store   *store.Store
	Claimer *claim.Claimer
}

// RegisterAttachments adds the controller.
func RegisterAttachments(controllers feed.Controllers, f *feed.Feed, r *Attachments) error {
	return controllers.Add("attachmentclaim", 2, r, r.source(f))
}

// Reconcile implements reconcile.Reconciler.
func (r *Attachments) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var row *multinet.Claim
	var what verb
	r.Store.View(func(tx store.ReadTx) {
		if row = multinet.GetClaim(tx, request.Namespace, request.Name); row != nil {
			what = decideAttachment(tx, row, r.Claimer.Settled())
		}
	})
	switch what {
	case expel:
		if sure, err := holderGone(ctx, r.Live, row.Holder()); err != nil || !sure {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.Claimer.DeleteAttachment(ctx, row)
	case release:
		if sure, err := holderGone(ctx, r.Live, row.Holder()); err != nil || !sure {
			return ctrl.Result{}, err
		}
		switch sure, err := nodeLetGo(ctx, r.Live, row.Node); {
		case err != nil:
			return ctrl.Result{}, err
		case !sure:
			return ctrl.Result{RequeueAfter: lookAgain}, nil
		}
		return ctrl.Result{}, r.Claimer.ReleaseAttachment(ctx, row)
	case forget:
		return ctrl.Result{}, r.Claimer.ReleaseAttachment(ctx, row)
	case keep:
	}
	return ctrl.Result{}, nil
}

// decideAttachment plans for one claim. A claim that was deleted while its pod lives stays until the
// daemon of the node has reported that the pod has no interface; the pod's controller writes it
// again then. While the node may be running, only its daemon can report that an interface is gone.
func decideAttachment(tx store.ReadTx, row *multinet.Claim, settled bool) verb {
	pod := store.GetPod(tx, row.PodUID)
	switch {
	case pod == nil && !row.Deleting:
		return expel
	case !row.Deleting || !row.Finalizer:
		return keep
	case row.Released:
		return forget
	case pod == nil && letGo(tx, row.Node, settled):
		return release
	}
	return keep
}

// source requests a claim when it changes, when its pod is gone, when its node is deleted or
// declared out of service, and when the answer of the node's daemon is deleted.
func (r *Attachments) source(f *feed.Feed) *feed.Source {
	return feed.NewSource(
		f,
		func(tx store.ReadTx) []feed.Request { return ofClaims(multinet.Claims(tx)) },
		feed.On(func(_ store.ReadTx, _, now *multinet.Claim) []feed.Request {
			if now == nil {
				return nil
			}
			return ofClaims([]*multinet.Claim{now})
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Pod) []feed.Request {
			if now != nil {
				return nil
			}
			return ofClaims(multinet.ClaimsNaming(tx, old.UID))
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Node) []feed.Request {
			if !fenced(now) {
				return nil
			}
			return ofClaims(multinet.ClaimsByNode(tx, feed.Either(old, now).Name))
		}),
		onAnswerDeleted(
			func(tx store.ReadTx, node string) []feed.Request { return ofClaims(multinet.ClaimsByNode(tx, node)) },
		),
		rollcall.OnSettled(r.Claimer.Settled, func(tx store.ReadTx) []feed.Request { return ofClaims(multinet.Claims(tx)) }),
	).ByTurns()
}

func ofClaims(rows []*multinet.Claim) []feed.Request {
	var all []feed.Request
	for _, row := range rows {
		all = append(all, feed.Now(row.Namespace, row.Name))
	}
	return all
}
