// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
)

// SetCondition sets whether the condition called kind holds for the object at
// this generation, and why. The time of the last change is kept while the status of the
// condition does not change. The message becomes one line of bounded length.
func SetCondition(conditions *[]metav1.Condition, generation int64, kind string, holds bool, reason, message string) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: quote.Message(message), ObservedGeneration: generation,
	})
}

// SetReady sets the condition Ready of an object at this generation to a verdict.
func SetReady(conditions *[]metav1.Condition, generation int64, v verdict.Verdict) {
	SetCondition(conditions, generation, v1alpha1.ReadyCondition, v.IsReady(), v.Reason, v.Message)
}

// readableMost is the largest number that columns show. One beside it is as good as endless.
const readableMost = 1_000_000_000_000_000

// Readable returns a number as people read it in a column.
func Readable(n int64) string {
	if n > readableMost {
		return ">1e15"
	}
	return strconv.FormatInt(n, 10)
}

// Status writes the status of an object if it differs from before, which is the object as it was
// read. The patch has the resource version, so that it fails with a conflict if the object has
// changed. Status returns nil for a deleted object.
func Status(ctx context.Context, c client.Client, before, object client.Object) error {
	if equality.Semantic.DeepEqual(before, object) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, object, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}
