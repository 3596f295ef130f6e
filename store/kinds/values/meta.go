// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// Meta returns the metadata that all rows have.
func Meta(obj metav1.Object) store.Meta {
	return store.Meta{
		UID:             string(obj.GetUID()),
		ResourceVersion: obj.GetResourceVersion(),
		Generation:      obj.GetGeneration(),
		Created:         obj.GetCreationTimestamp().Time,
		Deleting:        obj.GetDeletionTimestamp() != nil,
		Finalizer:       slices.Contains(obj.GetFinalizers(), v1alpha1.Finalizer),
	}
}

// Readiness returns status, reason and message of the Ready condition.
func Readiness(conditions []metav1.Condition) (ready bool, reason, message string) {
	condition := meta.FindStatusCondition(conditions, v1alpha1.ReadyCondition)
	if condition == nil {
		return false, "", ""
	}
	return condition.Status == metav1.ConditionTrue, quote.Bounded(
			condition.Reason,
			quote.MaxQuoted,
		), quote.Message(
			condition.Message,
		)
}

// NetworkRef converts a reference, the zero value for none.
func NetworkRef(in *v1alpha1.NetworkReference) store.NetworkRef {
	if in == nil {
		return store.NetworkRef{}
	}
	return store.NetworkRef{Group: in.Group, Kind: in.Kind, Namespace: in.Namespace, Name: in.Name, UID: in.UID}
}
