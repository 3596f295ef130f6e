// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpc

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
func setStatus(vpc *v1alpha1.VPC, d decision) {
	ready := metav1.ConditionFalse
	if d.ready {
		ready = metav1.ConditionTrue
	}
	vpc.Status.VNI = int32(d.vni)
	vpc.Status.Subnets = int32(d.subnets)
	vpc.Status.Addresses = int32(d.addresses)
	vpc.Status.ObservedGeneration = vpc.Generation
	meta.SetStatusCondition(&vpc.Status.Conditions, metav1.Condition{
		Type:               v1alpha1.ReadyCondition,
		Status:             ready,
		Reason:             d.reason,
		Message:            d.message,
		ObservedGeneration: vpc.Generation,
	})
}

// writeStatus patches the status where it differs. The patch carries the
// resource version, so that it hits what was looked at or nothing.
func (r *Reconciler) writeStatus(ctx context.Context, vpc *v1alpha1.VPC, d decision) error {
	before := vpc.DeepCopy()
	setStatus(vpc, d)
	if equality.Semantic.DeepEqual(before.Status, vpc.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, vpc, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of VPC %s: %w", vpc.Name, err)
	}
	return nil
}
