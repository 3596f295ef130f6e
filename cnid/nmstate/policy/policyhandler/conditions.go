// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// Types of conditions, only one of them true at a time.
var (
	ofEnactments = []string{
		nmstatev1.AvailableCondition, nmstatev1.FailingCondition, nmstatev1.PendingCondition,
		nmstatev1.ProgressingCondition, nmstatev1.AbortedCondition,
	}
	ofPolicies = []string{
		nmstatev1.AvailableCondition, nmstatev1.DegradedCondition, nmstatev1.ProgressingCondition, nmstatev1.IgnoredCondition,
	}
)

func enactmentConditions(row *nmstate.Enactment, old []metav1.Condition, now metav1.Time) []metav1.Condition {
	if row.Phase == "" {
		return old
	}
	return oneTrue(old, ofEnactments, metav1.Condition{
		Type: string(row.Phase), Reason: row.Reason, Message: row.Message,
		ObservedGeneration: row.PolicyGeneration, LastTransitionTime: now,
	})
}

// oneTrue returns the old conditions, but changes the conditions of some types: the given
// condition is true, and the others are false for the same reason. A condition with the same
// status keeps its time of transition.
func oneTrue(old []metav1.Condition, types []string, is metav1.Condition) []metav1.Condition {
	conditions := slices.Clone(old)
	is.Reason = cmp.Or(is.Reason, is.Type) // the API needs one
	for _, one := range types {
		next := is
		next.Type, next.Status = one, metav1.ConditionTrue
		if one != is.Type {
			next.Status, next.Message = metav1.ConditionFalse, ""
		}
		next.Message = quote.Message(next.Message)
		meta.SetStatusCondition(&conditions, next)
	}
	return conditions
}

// withConflict returns the old conditions with Conflict, which is true if there is a
// message. It needs a generation and a time.
func withConflict(old []metav1.Condition, message string, generation int64, now metav1.Time) []metav1.Condition {
	conditions := slices.Clone(old)
	next := metav1.Condition{
		Type: nmstatev1.ConflictCondition, Status: metav1.ConditionFalse, Reason: nmstatev1.NoConflictReason,
		ObservedGeneration: generation, LastTransitionTime: now,
	}
	if message != "" {
		next.Status, next.Reason, next.Message = metav1.ConditionTrue, nmstatev1.OverruledReason, quote.Message(message)
	}
	meta.SetStatusCondition(&conditions, next)
	return conditions
}
