// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/enact"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

func newState(node string) *nmstatev1beta1.NodeNetworkState {
	return &nmstatev1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: node}}
}

// putDesired replaces the desired state of a node, if the object is the one that it was made
// from. So fields that were set by hand meanwhile are not lost.
func (h *Handler) putDesired(ctx context.Context, node string, desired *enact.Desired) error {
	object := newState(node)
	if err := h.api.Get(ctx, object); err != nil {
		return err
	}
	if object.ResourceVersion != desired.ResourceVersion {
		return stale("state", node)
	}
	return kube.PatchSpec(ctx, h.api, object,
		kube.Set{Field: "desiredState", Value: desired.State},
		kube.Set{Field: "policyState", Value: desired.FromPolicies},
		kube.Set{Field: "policyReach", Value: desired.Reach},
		kube.Set{Field: "parts", Value: partsOf(desired.Parts)})
}

func partsOf(parts []nmstate.Part) []nmstatev1beta1.Part {
	var list []nmstatev1beta1.Part
	for _, part := range parts {
		list = append(list, nmstatev1beta1.Part{Paths: part.Paths, Reach: part.Reach})
	}
	return list
}

// putOwners writes who has which part of a node's desired state. The state handler has the
// other fields and conditions.
func (h *Handler) putOwners(ctx context.Context, state *nmstate.State, owners enact.Owners) error {
	object := newState(state.Name)
	if err := h.api.Get(ctx, object); err != nil {
		return err
	}
	if object.UID != types.UID(state.UID) {
		return stale("state", state.Name)
	}
	list := make([]nmstatev1beta1.Owner, 0, len(owners.List))
	for _, one := range owners.List {
		list = append(list, nmstatev1beta1.Owner{Path: one.Path, Owner: one.Owner})
	}
	now := metav1.NewTime(h.cfg.Clock.Now())
	return kube.PatchStatus(ctx, h.api, object,
		kube.Set{Field: "owners", Value: list},
		kube.Set{Field: "moreOwners", Value: owners.More},
		kube.Set{Field: "conditions", Value: withConflict(object.Status.Conditions, owners.Conflict, object.Generation, now)})
}
