// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/write"
)

// setStatus sets every field of the status from a decision.
func setStatus(net *arktosv1.Network, d decision) {
	net.Status.Tenant = d.tenant
	net.Status.ObservedGeneration = net.Generation
	write.SetReady(&net.Status.Conditions, net.Generation, d.Verdict)
	setProblem(net, v1alpha1.NameConflictCondition, true, v1alpha1.NameConflictReason, d.conflict, fmt.Sprintf(
		"Network %s, which is older, has the same name: it serves the tenant's namespaces that have none of this name, this one serves its own",
		d.conflict,
	))
	setProblem(
		net,
		v1alpha1.IsolatedCondition,
		false,
		v1alpha1.PodSecurityMissingReason,
		some(d.unrestricted),
		fmt.Sprintf(
			"namespaces without Pod Security: %s; a privileged pod there controls its node, and so the pods of all tenants on it; label each of them %s=%s",
			some(d.unrestricted),
			v1alpha1.PodSecurityLabel,
			v1alpha1.RestrictingLevels()[0],
		),
	)
}

// setProblem sets a condition that a Network has only while there is a cause.
func setProblem(net *arktosv1.Network, kind string, holds bool, reason, cause, message string) {
	if cause == "" {
		meta.RemoveStatusCondition(&net.Status.Conditions, kind)
		return
	}
	write.SetCondition(&net.Status.Conditions, net.Generation, kind, holds, reason, message)
}

func (r *Reconciler) writeStatus(ctx context.Context, net *arktosv1.Network, d decision) error {
	before := net.DeepCopy()
	setStatus(net, d)
	return write.Status(ctx, r.Client, before, net)
}
