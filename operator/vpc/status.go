// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpc

import (
	"context"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/write"
)

// setStatus sets every field of the status from a decision.
func setStatus(vpc *v1alpha1.VPC, d decision) {
	vpc.Status.VNI = int32(d.vni)
	vpc.Status.ObservedGeneration = vpc.Generation
	write.SetReady(&vpc.Status.Conditions, vpc.Generation, d.Verdict)
}

func (r *Reconciler) writeStatus(ctx context.Context, vpc *v1alpha1.VPC, d decision) error {
	subnets := int32(d.subnets)
	figures := v1alpha1.UsageStatus{Used: int64(d.addresses), Subnets: &subnets}
	if err := write.Usage(ctx, r.Client, v1alpha1.UsageOfVPC, vpc, figures); err != nil {
		return err
	}
	before := vpc.DeepCopy()
	setStatus(vpc, d)
	return write.Status(ctx, r.Client, before, vpc)
}
