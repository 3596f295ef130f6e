// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package finalizer adds Alioth's finalizer to objects and removes it. It keeps an
// object in the API until what depends on it is gone.
package finalizer

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// Ensure adds the finalizer to an object that has none and is not being deleted.
func Ensure(ctx context.Context, c client.Client, object client.Object) error {
	if object.GetDeletionTimestamp() != nil || !controllerutil.AddFinalizer(object, v1alpha1.Finalizer) {
		return nil
	}
	if err := c.Update(ctx, object); err != nil {
		return fmt.Errorf("add finalizer to %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// Remove removes the finalizer from an object that has it, and reports whether it had.
// An object that is gone is no error.
func Remove(ctx context.Context, c client.Client, object client.Object) (had bool, err error) {
	if !controllerutil.RemoveFinalizer(object, v1alpha1.Finalizer) {
		return false, nil
	}
	if err := c.Update(ctx, object); client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("remove finalizer of %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return true, nil
}
