// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// AddFinalizer adds Alioth's finalizer to an object that has none and is not being deleted.
// The finalizer keeps an object in the API until all that depends on it is gone.
func AddFinalizer(ctx context.Context, c client.Client, object client.Object) error {
	if object.GetDeletionTimestamp() != nil || controllerutil.ContainsFinalizer(object, v1alpha1.Finalizer) {
		return nil
	}
	if err := patchFinalizers(ctx, c, object, controllerutil.AddFinalizer); err != nil {
		return fmt.Errorf("add finalizer to %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// RemoveFinalizer removes the finalizer from an object that has it, and reports whether it had. It
// returns no error for an object that is gone.
func RemoveFinalizer(ctx context.Context, c client.Client, object client.Object) (had bool, err error) {
	if !controllerutil.ContainsFinalizer(object, v1alpha1.Finalizer) {
		return false, nil
	}
	if err := patchFinalizers(ctx, c, object, controllerutil.RemoveFinalizer); client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("remove finalizer of %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return true, nil
}

// patchFinalizers changes the list of finalizers, and nothing else. The spec of such an object is a
// user's, and may have values that the Go type can't hold: unknown fields, empty texts, nulls. An
// update of the whole object would drop them, and rules for a spec that must not change would
// refuse it. The patch replaces the whole list, so it has the resource version: it fails with a
// conflict if the object has changed.
func patchFinalizers(
	ctx context.Context,
	c client.Client,
	object client.Object,
	change func(client.Object, string) bool,
) error {
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copy %T", object)
	}
	change(object, v1alpha1.Finalizer)
	return c.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
