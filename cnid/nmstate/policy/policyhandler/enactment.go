// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

func newEnactment(name string) *nmstatev1beta1.NodeNetworkConfigurationEnactment {
	return &nmstatev1beta1.NodeNetworkConfigurationEnactment{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// labelsOf returns the labels that select the enactments of a node, or of a policy.
func labelsOf(row *nmstate.Enactment) map[string]string {
	return map[string]string{
		nmstatev1.NodeLabel:   nmstatev1beta1.LabelValue(row.Node),
		nmstatev1.PolicyLabel: nmstatev1beta1.LabelValue(row.Policy.Name),
	}
}

// putEnactment makes an enactment what the row is, but for its slot.
func (h *Handler) putEnactment(ctx context.Context, row *nmstate.Enactment) error {
	object, err := h.enactmentFor(ctx, row)
	if err != nil {
		return err
	}
	return kube.PatchStatus(ctx, h.api, object, enactmentStatus(row, &object.Status, metav1.NewTime(h.cfg.Clock.Now()))...)
}

// enactmentFor returns the object that a row was made of, and a new one for a new row.
func (h *Handler) enactmentFor(
	ctx context.Context,
	row *nmstate.Enactment,
) (*nmstatev1beta1.NodeNetworkConfigurationEnactment, error) {
	object := newEnactment(row.Name)
	if row.UID == "" {
		object.Labels = labelsOf(row)
		err := h.api.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) {
			return h.adopt(ctx, row)
		}
		return object, err
	}
	if err := h.api.Get(ctx, object); err != nil {
		return nil, err
	}
	if object.UID != types.UID(row.UID) || object.ResourceVersion != row.ResourceVersion {
		return nil, stale("enactment", row.Name)
	}
	return object, nil
}

// adopt returns an enactment that was created by a handler that ended before it wrote the
// status. Such an object has no row, so only its name is known to be taken.
func (h *Handler) adopt(
	ctx context.Context,
	row *nmstate.Enactment,
) (*nmstatev1beta1.NodeNetworkConfigurationEnactment, error) {
	object := newEnactment(row.Name)
	if err := h.api.Get(ctx, object); err != nil {
		return nil, err
	}
	if of := object.Status.Policy; of != nil {
		if of.Kind == row.Policy.Kind && of.Name == row.Policy.Name {
			return nil, stale("enactment", row.Name)
		}
		return nil, fmt.Errorf(
			"the name is still that of an enactment of %s/%s, which an earlier version made on another node: that node's daemon replaces it",
			quote.Name(of.Kind),
			quote.Name(of.Name),
		)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.UID, "labels": labelsOf(row)}})
	if err != nil {
		return nil, fmt.Errorf("encode labels: %w", err)
	}
	if err := h.api.Patch(ctx, object, types.MergePatchType, patch); err != nil {
		return nil, err
	}
	object = newEnactment(row.Name)
	return object, h.api.Get(ctx, object)
}

// enactmentStatus returns all fields of the status but the slot, which is the operator's.
func enactmentStatus(
	row *nmstate.Enactment,
	old *nmstatev1beta1.NodeNetworkConfigurationEnactmentStatus,
	now metav1.Time,
) []kube.Set {
	return []kube.Set{
		{
			Field: "policy",
			Value: nmstatev1beta1.PolicyReference{Kind: row.Policy.Kind, Name: row.Policy.Name, UID: row.PolicyUID},
		},
		{Field: "policyGeneration", Value: row.PolicyGeneration},
		{Field: "desiredState", Value: row.Desired},
		{Field: "desiredStateMetaInfo", Value: madeAt(row.Desired, old.DesiredState, old.DesiredStateMetaInfo, now)},
		{Field: "capturedStates", Value: capturedStates(row.Captured, old.CapturedStates, now)},
		{Field: "appliedState", Value: row.Applied},
		{Field: "appliedPriority", Value: row.AppliedPriority},
		{Field: "trial", Value: trialOf(row.Trial)},
		{Field: "keepOnDelete", Value: row.Keep},
		{Field: "stateBefore", Value: row.Before},
		{Field: "undoing", Value: row.Undoing},
		{Field: "overruled", Value: row.Overruled},
		{Field: "conditions", Value: enactmentConditions(row, old.Conditions, now)},
	}
}

// trial is a v1beta1.Trial whose document is not encoded yet.
type trial struct {
	Open           bool           `json:"open,omitempty"`
	FormerState    map[string]any `json:"formerState,omitempty"`
	FormerPriority int32          `json:"formerPriority,omitempty"`
	Failures       int            `json:"failures,omitempty"`
	Next           *metav1.Time   `json:"next,omitempty"`
	Seen           string         `json:"seen,omitempty"`
}

// trialOf returns nil for no trial.
func trialOf(row nmstate.Trial) *trial {
	t := trial{
		Open:           row.Open,
		FormerState:    row.Former,
		FormerPriority: row.FormerPriority,
		Failures:       row.Failures,
		Seen:           row.Seen,
	}
	if !row.Next.IsZero() {
		t.Next = new(metav1.NewTime(row.Next))
	}
	if !t.Open && t.Failures == 0 {
		return nil
	}
	return &t
}

// madeAt tells when a document was made: if it is the old one, when that was.
func madeAt(
	document map[string]any,
	old *runtime.RawExtension,
	was nmstatev1beta1.MetaInfo,
	now metav1.Time,
) nmstatev1beta1.MetaInfo {
	if document == nil {
		return nmstatev1beta1.MetaInfo{}
	}
	if was.Time != nil && was.Version == nmstatev1beta1.HandlerVersion && isDocument(document, old) {
		return was
	}
	return nmstatev1beta1.MetaInfo{Version: nmstatev1beta1.HandlerVersion, Time: &now}
}

// isDocument reports whether a field of an object is the document.
func isDocument(document map[string]any, field *runtime.RawExtension) bool {
	if field == nil {
		return false
	}
	text, err := json.Marshal(document)
	return err == nil && kube.SameJSON(text, field.Raw)
}

// capturedState is a v1beta1.CapturedState whose document is not encoded yet.
type capturedState struct {
	State    map[string]any          `json:"state,omitempty"`
	MetaInfo nmstatev1beta1.MetaInfo `json:"metaInfo,omitzero"`
}

func capturedStates(
	states map[string]map[string]any,
	old map[string]nmstatev1beta1.CapturedState,
	now metav1.Time,
) map[string]capturedState {
	var all map[string]capturedState
	for name, state := range states {
		if all == nil {
			all = map[string]capturedState{}
		}
		was := old[name]
		all[name] = capturedState{State: state, MetaInfo: madeAt(state, was.State, was.MetaInfo, now)}
	}
	return all
}
