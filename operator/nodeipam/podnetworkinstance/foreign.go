// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetworkinstance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// The chart leaves a CRD of another installation as it is. Such a CRD has no fields of
// Alioth's own, so the API server drops status.reservations and status.conditions.
//
// Without status.reservations a successor of this operator would not know the VPC of a
// reserved address, and would give it away. So nothing is reserved then. Instances that
// reserve nothing are served. Without conditions, an event has the reason and the message,
// and the store has them for the conditions of pods.

// tryKeeping finds out whether the API keeps reservations, by a write that changes nothing.
func (r *Reconciler) tryKeeping(ctx context.Context, object client.Object) error {
	if r.keeps {
		return nil
	}
	trial := object.DeepCopyObject().(client.Object)
	statusOf(trial).Reservations = []multitenancyv1alpha1.Reservation{{PodNetwork: "trial", NetworkID: "trial"}}
	if err := r.Client.Status().Patch(ctx, trial, client.MergeFrom(object), client.DryRunAll); err != nil {
		return fmt.Errorf(
			"try whether the API keeps reservations of PodNetworkInstance %s: %w",
			client.ObjectKeyFromObject(object),
			err,
		)
	}
	r.keeps = len(statusOf(trial).Reservations) > 0
	return nil
}

// tellForeign writes an event about a decision whose condition the API server has dropped. object
// is the API server's version after the write.
func (r *Reconciler) tellForeign(object client.Object, d decision) error {
	has := statusOf(object)
	r.keeps = r.keeps && (len(d.reserved) == 0 || len(has.Reservations) > 0)
	if meta.FindStatusCondition(has.Conditions, v1alpha1.ReadyCondition) != nil {
		return nil
	}
	name := client.ObjectKeyFromObject(object)
	for _, news := range r.noticed.News(name, string(object.GetUID()), d.notice()) {
		level := corev1.EventTypeWarning
		if d.IsReady() || d.Reason == v1alpha1.DeletingReason {
			level = corev1.EventTypeNormal
		}
		r.Events.Eventf(object, nil, level, news.Reason, "Check", "%s", news.Message)
	}
	return r.Store.Update(func(tx store.Tx) error {
		row := nodeipam.GetInstance(tx, nodeipam.Ref{Group: r.Group, Namespace: name.Namespace, Name: name.Name})
		if row == nil || row.UID != string(object.GetUID()) {
			return nil
		}
		return nodeipam.AssumeCondition(tx, row, d.Reason, d.Message)
	})
}

// notice returns the event of a decision; nil for a state that is over within a moment.
func (d decision) notice() *tenancy.Refusal {
	if d.Reason == v1alpha1.ReservingReason {
		return nil
	}
	return &tenancy.Refusal{Reason: d.Reason, Message: d.Message}
}

// forget drops the notices about an instance that is gone.
func (r *Reconciler) forget(name client.ObjectKey) { r.noticed.News(name, "") }
