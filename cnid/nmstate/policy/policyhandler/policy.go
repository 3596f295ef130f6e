// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/enact"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// newPolicy returns an empty policy of that kind and name, nil for no kind of policies.
func newPolicy(ref nmstate.Reference) kube.Object {
	named := metav1.ObjectMeta{Name: ref.Name}
	switch ref.Kind {
	case nmstatev1.NodeNetConfPolicyKind:
		return &nmstatev1.NodeNetConfPolicy{ObjectMeta: named}
	case nmstatev1.NodeNetworkConfigurationPolicyKind:
		return &nmstatev1.NodeNetworkConfigurationPolicy{ObjectMeta: named}
	}
	return nil
}

// putStatus writes the status of a policy. Last is the node that got a slot last, "" if that
// stays.
func (r *Rollouts) putStatus(ctx context.Context, row *nmstate.Policy, status enact.Status, last string) error {
	object := newPolicy(row.Spec.Reference)
	if object == nil {
		return nil
	}
	if err := r.api.Get(ctx, object); err != nil {
		return fmt.Errorf("read the policy %s: %w", row.Spec.Reference, err)
	}
	if object.GetUID() != types.UID(row.UID) {
		return stale("policy", row.Spec.String())
	}
	changes := policyStatus(object, row.Generation, status, last, metav1.NewTime(r.cfg.Clock.Now()))
	if err := kube.PatchStatus(ctx, r.api, object, changes...); err != nil {
		return fmt.Errorf("write the status of the policy %s: %w", row.Spec.Reference, err)
	}
	return nil
}

// policyStatus returns the fields of the status of a policy of either kind.
func policyStatus(object kube.Object, generation int64, status enact.Status, last string, now metav1.Time) []kube.Set {
	var old []metav1.Condition
	fields := []kube.Set{{Field: "observedGeneration", Value: generation}}
	if last != "" {
		fields = append(fields, kube.Set{Field: "lastSlot", Value: last})
	}
	switch typed := object.(type) {
	case *nmstatev1.NodeNetConfPolicy:
		old = typed.Status.Conditions
	case *nmstatev1.NodeNetworkConfigurationPolicy:
		old = typed.Status.Conditions
		fields = append(fields, changingNodes(&typed.Status, status.Changing, now)...)
	}
	conditions := oneTrue(old, ofPolicies, metav1.Condition{
		Type: status.Condition, Reason: status.Reason, Message: status.Message,
		ObservedGeneration: generation, LastTransitionTime: now,
	})
	return append(fields, kube.Set{Field: "conditions", Value: withConflict(conditions, status.Conflict, generation, now)})
}

// changingNodes tells how many nodes change, and since when it is so many.
func changingNodes(old *nmstatev1.NodeNetworkConfigurationPolicyStatus, changing int, now metav1.Time) []kube.Set {
	at := old.LastUnavailableNodeCountUpdate
	if int(old.UnavailableNodeCount) != changing || at == nil {
		at = &now
	}
	return []kube.Set{
		{Field: "unavailableNodeCount", Value: changing},
		{Field: "lastUnavailableNodeCountUpdate", Value: at},
	}
}

// lastSlot is the node that a policy says got a slot last.
func lastSlot(object kube.Object) string {
	switch typed := object.(type) {
	case *nmstatev1.NodeNetConfPolicy:
		return typed.Status.LastSlot
	case *nmstatev1.NodeNetworkConfigurationPolicy:
		return typed.Status.LastSlot
	}
	return ""
}
