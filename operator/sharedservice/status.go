// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sharedservice

import (
	"context"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/write"
)

func (r *Reconciler) writeStatus(ctx context.Context, shared *v1alpha1.SharedService, d decision) error {
	before := shared.DeepCopy()
	shared.Status.ClusterIPs = d.clusterIPs
	shared.Status.ObservedGeneration = shared.Generation
	write.SetReady(&shared.Status.Conditions, shared.Generation, d.Verdict)
	return write.Status(ctx, r.Client, before, shared)
}
