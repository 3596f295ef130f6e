// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

func rowMeta(obj metav1.Object) store.Meta {
	return store.Meta{
		UID:             string(obj.GetUID()),
		ResourceVersion: obj.GetResourceVersion(),
		Generation:      obj.GetGeneration(),
		Created:         obj.GetCreationTimestamp().Time,
		Deleting:        obj.GetDeletionTimestamp() != nil,
		Finalizer:       slices.Contains(obj.GetFinalizers(), v1alpha1.Finalizer),
	}
}

// readiness returns status, reason and message of the Ready condition.
func readiness(conditions []metav1.Condition) (ready bool, reason, message string) {
	condition := meta.FindStatusCondition(conditions, v1alpha1.ReadyCondition)
	if condition == nil {
		return false, "", ""
	}
	return condition.Status == metav1.ConditionTrue, condition.Reason, condition.Message
}
