// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vpc makes VPCs usable: it claims their VNIs, checks their ranges against
// reserved ones, counts their objects, and delays their deletion while objects use
// them. The VNI of a deleted VPC stays reserved until package rollcall releases it.
package vpc

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

// countsEvery bounds how often the counts of one VPC are written.
const countsEvery = 2 * time.Second

// Reconciler applies the decisions of decide.
type Reconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Store *store.Store
	Term  claim.Term
	// Feed notifies other controllers.
	Feed  feed.Publisher
	Rules Rules
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("vpc", 1, r, source(f, r.Rules.DefaultVPC))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vpc := &v1alpha1.VPC{}
	if err := r.Client.Get(ctx, request.NamespacedName, vpc); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// Before the first claim, so that no claim outlives its VPC.
	if err := write.AddFinalizer(ctx, r.Client, vpc); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.carryOut(ctx, vpc)
}

func (r *Reconciler) carryOut(ctx context.Context, vpc *v1alpha1.VPC) error {
	row := feed.Row(vpcs.VPC, vpc)
	if row == nil {
		return nil // package announce tells that
	}
	d, err := r.claim(ctx, row)
	if err != nil {
		return err
	}
	for _, surplus := range d.release {
		// It was never programmed.
		if err := r.claims().Release(ctx, v1alpha1.VNIClaimName(surplus.VNI), surplus.UID); err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("VNI released", "vpc", surplus.VPC, "vni", surplus.VNI)
	}
	if d.empty {
		_, err := write.RemoveFinalizer(ctx, r.Client, vpc)
		return err
	}
	return r.writeStatus(ctx, vpc, d)
}

func (r *Reconciler) claims() claim.Numbers {
	return claim.Numbers{Kind: vpcs.VNIClaim.Kind, Client: r.Client, Live: r.Live, Store: r.Store, Feed: r.Feed}
}

// claim decides and claims the VNI that the decision asks for, until the
// decision asks for none. It ends, because every round either claims a VNI or excludes
// one, unless a client deletes every claim at once.
func (r *Reconciler) claim(ctx context.Context, row *store.VPC) (decision, error) {
	var taken []uint32
	for {
		var d decision
		r.Store.View(func(tx store.ReadTx) { d = decide(tx, row, r.Rules, taken) })
		if d.claim == 0 || !r.Term.Settled() {
			return d, nil
		}
		object := &v1alpha1.VNIClaim{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.VNIClaimName(d.claim)},
			Spec:       v1alpha1.VNIClaimSpec{VNI: int32(d.claim), VPC: row.Name, VPCUID: row.UID},
		}
		err := r.claims().Create(ctx, object)
		switch {
		case apierrors.IsAlreadyExists(err):
			taken = append(taken, d.claim)
			continue
		case err != nil:
			return d, fmt.Errorf("claim VNI %d for VPC %s: %w", d.claim, row.Name, err)
		}
		ctrl.LoggerFrom(ctx).Info("VNI claimed", "vpc", row.Name, "vni", d.claim)
	}
}
