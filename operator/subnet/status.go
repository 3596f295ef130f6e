// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subnet

import (
	"context"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/write"
)

// setStatus sets every field of the status from a decision. Cursors of an earlier release
// are in the Usage.
func setStatus(subnet *v1alpha1.Subnet, d decision) {
	subnet.Status.InUse = d.used > 0
	subnet.Status.Cursors = nil
	subnet.Status.ObservedGeneration = subnet.Generation
	write.SetReady(&subnet.Status.Conditions, subnet.Generation, d.Verdict)
}

// writeStatus writes the figures first: the status may have cursors that only it has.
func (r *Reconciler) writeStatus(ctx context.Context, subnet *v1alpha1.Subnet, d decision) error {
	figures := v1alpha1.UsageStatus{Used: d.used, Free: &d.free, FreeText: write.Readable(d.free), Cursors: d.cursors}
	if err := write.Usage(ctx, r.Client, v1alpha1.UsageOfSubnet, subnet, figures); err != nil {
		return err
	}
	before := subnet.DeepCopy()
	setStatus(subnet, d)
	return write.Status(ctx, r.Client, before, subnet)
}
