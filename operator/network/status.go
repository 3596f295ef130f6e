// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// setStatus sets every field of the status from a decision.
func setStatus(net *arktosv1.Network, d decision) {
	net.Status.Tenant = d.tenant
	net.Status.ObservedGeneration = net.Generation
	set := func(kind string, holds bool, reason, message string) {
		status := metav1.ConditionFalse
		if holds {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&net.Status.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: net.Generation,
		})
	}
	set(v1alpha1.ReadyCondition, d.ready, d.reason, d.message)
	if d.conflict == "" {
		meta.RemoveStatusCondition(&net.Status.Conditions, v1alpha1.NameConflictCondition)
		return
	}
	set(v1alpha1.NameConflictCondition, true, v1alpha1.NameConflictReason, fmt.Sprintf(
		"Network %s, which is older, has the same name: it serves the tenant's namespaces that have none of this name, this one serves its own",
		d.conflict))
}

// writeStatus patches the status where it differs. The patch carries the
// resource version, so that it hits what was looked at or nothing.
func (r *Reconciler) writeStatus(ctx context.Context, net *arktosv1.Network, d decision) error {
	before := net.DeepCopy()
	setStatus(net, d)
	if equality.Semantic.DeepEqual(before.Status, net.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, net, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of Network %s/%s: %w", net.Namespace, net.Name, err)
	}
	return nil
}
