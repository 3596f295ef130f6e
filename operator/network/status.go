// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/status"
)

// setStatus sets every field of the status from a decision.
func setStatus(net *arktosv1.Network, d decision) {
	net.Status.Tenant = d.tenant
	net.Status.ObservedGeneration = net.Generation
	status.SetCondition(&net.Status.Conditions, net.Generation, v1alpha1.ReadyCondition, d.ready, d.reason, d.message)
	if d.conflict == "" {
		meta.RemoveStatusCondition(&net.Status.Conditions, v1alpha1.NameConflictCondition)
		return
	}
	status.SetCondition(&net.Status.Conditions, net.Generation, v1alpha1.NameConflictCondition, true, v1alpha1.NameConflictReason, fmt.Sprintf(
		"Network %s, which is older, has the same name: it serves the tenant's namespaces that have none of this name, this one serves its own",
		d.conflict))
}

func (r *Reconciler) writeStatus(ctx context.Context, net *arktosv1.Network, d decision) error {
	before := net.DeepCopy()
	setStatus(net, d)
	return status.Patch(ctx, r.Client, before, net)
}
