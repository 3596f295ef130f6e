// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// isHandwritten reports whether the spec of a TenantNetwork has a profile, which earlier versions
// of the operator wrote there: only the operator may write a number.
func (r *Reconciler) isHandwritten(network client.Object) bool {
	if r.Kind.Name != multinet.KindTenantNetwork {
		return false
	}
	spec, of := r.Kind.Fields(network)
	return of.Profile == nil && meta.IsStatusConditionTrue(of.Conditions, v1alpha1.ProfileCondition) ||
		spec.Options.VLAN != 0 ||
		spec.Options.VXLAN != 0
}

// handBack removes the values from the spec that its writer can't have written, once the status has
// them: the numbers, and a NetworkID that the TenantConfig gives. A device in the spec is harmless.
// The UID keeps the write from another life of the network, and the resource version from a spec
// that has changed.
func (r *Reconciler) handBack(ctx context.Context, network client.Object) error {
	_, of := r.Kind.Fields(network)
	left := map[string]any{"Options": map[string]any{"vlan": nil, "vxlan": nil}}
	if of.Profile != nil && of.Profile.NetworkIDGiven {
		left["NetworkID"] = nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": network.GetUID(), "resourceVersion": network.GetResourceVersion()}, "spec": left,
	})
	if err != nil {
		return fmt.Errorf("encode %s without a profile: %w", network.GetName(), quote.Error(err))
	}
	if err := r.Client.Patch(ctx, network, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf(
			"take the profile out of the spec of %s %s: %w",
			r.Kind.Name,
			client.ObjectKeyFromObject(network),
			quote.Error(err),
		)
	}
	return nil
}

// isRefused reports whether the API server has refused to take the profile out of the present
// spec. It would refuse again.
func (r *Reconciler) isRefused(network client.Object) bool {
	_, of := r.Kind.Fields(network)
	refused := meta.FindStatusCondition(of.Conditions, v1alpha1.SpecHandedBackCondition)
	return refused != nil && refused.ObservedGeneration == network.GetGeneration()
}

// writeRefusal reports why the profile stays in the spec: rules that are younger than the network
// refuse the spec without it.
func (r *Reconciler) writeRefusal(ctx context.Context, network client.Object, cause error) error {
	before := network.DeepCopyObject().(client.Object)
	_, to := r.Kind.Fields(network)
	write.SetCondition(
		&to.Conditions,
		network.GetGeneration(),
		v1alpha1.SpecHandedBackCondition,
		false,
		v1alpha1.SpecRefusedReason,
		fmt.Sprintf(
			"vlan and vxlan stay in the spec, where an earlier release wrote them, and do not count: the network has its device and number by status.profile. "+
				"Correct the spec as the API server asks, without vlan and vxlan, or create the network again. The API server's words: %v",
			quote.Error(cause),
		),
	)
	return write.Status(ctx, r.Client, before, network)
}
