// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subnet

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// setStatus sets every field of the status from a decision.
func setStatus(subnet *v1alpha1.Subnet, d decision) {
	ready := metav1.ConditionFalse
	if d.ready {
		ready = metav1.ConditionTrue
	}
	subnet.Status.Used = d.used
	subnet.Status.Free = d.free
	subnet.Status.Cursors = d.cursors
	subnet.Status.ObservedGeneration = subnet.Generation
	meta.SetStatusCondition(&subnet.Status.Conditions, metav1.Condition{
		Type:               v1alpha1.ReadyCondition,
		Status:             ready,
		Reason:             d.reason,
		Message:            d.message,
		ObservedGeneration: subnet.Generation,
	})
}

// writeStatus patches the status where it differs. The patch carries the
// resource version, so that it hits what was looked at or nothing.
func (r *Reconciler) writeStatus(ctx context.Context, subnet *v1alpha1.Subnet, d decision) error {
	before := subnet.DeepCopy()
	setStatus(subnet, d)
	if equality.Semantic.DeepEqual(before.Status, subnet.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, subnet, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of Subnet %s: %w", subnet.Name, err)
	}
	return nil
}
