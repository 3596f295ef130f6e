// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/write"
)

// setStatus sets every field of the status from a decision. Once the profile is written, the
// condition Profile stays True.
func setStatus(to *danmv1.NetworkStatus, generation int64, d decision) {
	to.Used, to.Free, to.Total = d.used, d.free, d.total
	to.FreeText, to.TotalText = write.Readable(d.free), write.Readable(d.total)
	to.Pods, to.PodNames = int64(len(d.pods)), d.living[:min(len(d.living), podsInStatus)]
	to.ObservedGeneration = generation
	write.SetReady(&to.Conditions, generation, d.Verdict)
	if d.profile != nil {
		to.Profile = d.profile.inStatus(d.networkType)
		write.SetCondition(
			&to.Conditions,
			generation,
			v1alpha1.ProfileCondition,
			true,
			v1alpha1.ProfileReason,
			d.profile.String(),
		)
	}
	if !d.inSpec {
		meta.RemoveStatusCondition(&to.Conditions, v1alpha1.SpecHandedBackCondition)
	}
	setLink(to, generation, d.link)
	setIsolated(to, generation, d.notEnforced)
	setWithinLimits(to, generation, d.above)
	if d.conflict == "" {
		meta.RemoveStatusCondition(&to.Conditions, v1alpha1.NameConflictCondition)
		return
	}
	write.SetCondition(
		&to.Conditions,
		generation,
		v1alpha1.NameConflictCondition,
		true,
		v1alpha1.NameConflictReason,
		d.conflict,
	)
}

// setWithinLimits sets the condition about the limits of tenants. A network has it only if it
// exceeds one of them and works all the same.
func setWithinLimits(to *danmv1.NetworkStatus, generation int64, above string) {
	if above == "" {
		meta.RemoveStatusCondition(&to.Conditions, v1alpha1.WithinLimitsCondition)
		return
	}
	write.SetCondition(
		&to.Conditions,
		generation,
		v1alpha1.WithinLimitsCondition,
		false,
		v1alpha1.TenantLimitReason,
		above,
	)
}

// setLink sets the condition about the host link, which a network without one does not have.
func setLink(to *danmv1.NetworkStatus, generation int64, link *linkState) {
	if link == nil {
		meta.RemoveStatusCondition(&to.Conditions, v1alpha1.HostLinkCondition)
		return
	}
	reason := v1alpha1.HostLinkFailedReason
	if link.complete {
		reason = v1alpha1.HostLinkReadyReason
	}
	write.SetCondition(&to.Conditions, generation, v1alpha1.HostLinkCondition, link.complete, reason, link.message)
}

func (r *Reconciler) writeStatus(ctx context.Context, network client.Object, d decision) error {
	before := network.DeepCopyObject().(client.Object)
	_, to := r.Kind.Fields(network)
	setStatus(to, network.GetGeneration(), d)
	return write.Status(ctx, r.Client, before, network)
}
