// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpc

import (
	"context"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/status"
)

// setStatus sets every field of the status from a decision.
func setStatus(vpc *v1alpha1.VPC, d decision) {
	vpc.Status.VNI = int32(d.vni)
	vpc.Status.Subnets = int32(d.subnets)
	vpc.Status.Addresses = int32(d.addresses)
	vpc.Status.ObservedGeneration = vpc.Generation
	status.SetCondition(&vpc.Status.Conditions, vpc.Generation, v1alpha1.ReadyCondition, d.ready, d.reason, d.message)
}

func (r *Reconciler) writeStatus(ctx context.Context, vpc *v1alpha1.VPC, d decision) error {
	before := vpc.DeepCopy()
	setStatus(vpc, d)
	return status.Patch(ctx, r.Client, before, vpc)
}
