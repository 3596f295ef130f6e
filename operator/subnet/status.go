// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subnet

import (
	"context"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/status"
)

// setStatus sets every field of the status from a decision.
func setStatus(subnet *v1alpha1.Subnet, d decision) {
	subnet.Status.Used = d.used
	subnet.Status.Free = d.free
	subnet.Status.Cursors = d.cursors
	subnet.Status.ObservedGeneration = subnet.Generation
	status.SetCondition(&subnet.Status.Conditions, subnet.Generation, v1alpha1.ReadyCondition, d.ready, d.reason, d.message)
}

func (r *Reconciler) writeStatus(ctx context.Context, subnet *v1alpha1.Subnet, d decision) error {
	before := subnet.DeepCopy()
	setStatus(subnet, d)
	return status.Patch(ctx, r.Client, before, subnet)
}
