// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podnetworkinstance reserves addresses for PodNetworkInstances. The list in the status of an
// instance keeps them from others. It is complete in the API before the instance is Ready,
// and only pods of Ready instances get addresses.
package podnetworkinstance

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/announce"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

// Reconciler applies the decisions of decide to the instances of one group.
type Reconciler struct {
	Group string
	// Client writes; its reads come from the informers.
	Client client.Client
	Store  *store.Store
	Term   claim.Term
	// Events has the conditions that the API does not keep (foreign.go).
	Events events.EventRecorder

	// keeps is true once the API has kept reservations.
	keeps   bool
	noticed announce.Board
}

// tryForeign is the pause between two tries of whether the API keeps reservations by now. The
// operator gets no event about a CRD that was replaced.
const tryForeign = time.Minute

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add(Name(r.Group), 1, r, r.source(f))
}

// Name returns the name of the controller of a group.
func Name(group string) string { return "podnetworkinstance." + group }

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := ipamapi.PodNetworkInstances[r.Group].NewObject().(client.Object)
	if err := r.Client.Get(ctx, request.NamespacedName, object); err != nil {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// Before the first reservation, so that no pod outlives its instance.
	if err := write.AddFinalizer(ctx, r.Client, object); err != nil {
		return ctrl.Result{}, err
	}
	d, known, err := r.plan(ctx, object)
	if err != nil || !known {
		return ctrl.Result{}, err
	}
	if d.unused {
		if had, err := write.RemoveFinalizer(ctx, r.Client, object); had || err != nil {
			return ctrl.Result{}, err
		}
	}
	before := object.DeepCopyObject().(client.Object)
	setStatus(object, d)
	if err := write.Status(ctx, r.Client, before, object); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.tellForeign(object, d); err != nil {
		return ctrl.Result{}, err
	}
	if d.Reason == v1alpha1.ForeignDefinitionReason {
		return ctrl.Result{RequeueAfter: tryForeign}, nil
	}
	return ctrl.Result{}, nil
}

// plan decides, and puts new reservations into the store in the same transaction, so that no claim
// of an address is between. known is false if the store has another version of the object: its
// event has come or will come, and requests the instance again. The status is written with this
// version as precondition, so that the assumed reservations are in the next version.
func (r *Reconciler) plan(ctx context.Context, object client.Object) (d decision, known bool, err error) {
	converted, err := ipamapi.PodNetworkInstances[r.Group].Row(object)
	written, ok := converted.(*nodeipam.Instance)
	if err != nil || !ok {
		return d, false, fmt.Errorf("read PodNetworkInstance %s: %w", client.ObjectKeyFromObject(object), err)
	}
	if reserves(written) {
		if err := r.tryKeeping(ctx, object); err != nil {
			return d, false, err
		}
	}
	now := facts{written: written.Reserved, settled: r.Term.Settled(), keeps: r.keeps}
	err = r.Store.Update(func(tx store.Tx) error {
		row := nodeipam.GetInstance(tx, written.Ref)
		if known = row != nil && row.UID == written.UID && row.ResourceVersion == written.ResourceVersion; !known {
			return nil
		}
		if d = decide(tx, row, now); !d.assume {
			return nil
		}
		return nodeipam.AssumeReserved(tx, row, d.reserved)
	})
	return d, known, err
}

func setStatus(object client.Object, d decision) {
	to := statusOf(object)
	to.Status, to.PodNetworkStatuses, to.PodIPAddresses, to.Reservations = d.state, d.networks, nil, nil
	for _, reserved := range d.reserved {
		one := multitenancyv1alpha1.Reservation{PodNetwork: reserved.PodNetwork, NetworkID: reserved.VPC}
		for _, ip := range reserved.IPs {
			one.PodIPAddresses = append(one.PodIPAddresses, ip.String())
		}
		to.Reservations = append(to.Reservations, one)
		to.PodIPAddresses = append(to.PodIPAddresses, one.PodIPAddresses...)
	}
	write.SetReady(&to.Conditions, object.GetGeneration(), d.Verdict)
}

// statusOf returns the status of an instance of either group.
func statusOf(object client.Object) *multitenancyv1alpha1.PodNetworkInstanceStatus {
	if early, ok := object.(*acnv1alpha1.PodNetworkInstance); ok {
		return &early.Status
	}
	return &object.(*multitenancyv1alpha1.PodNetworkInstance).Status
}
