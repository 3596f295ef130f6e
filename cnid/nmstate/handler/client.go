// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"github.com/alioth-net/alioth/api/nmstate/document"

	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
)

// Ask returns a function for Config.Wanted that asks the API server each time, for a handler
// that follows nothing.
func Ask(api API, node string) func(ctx context.Context) (Wanted, error) {
	return func(ctx context.Context) (Wanted, error) {
		object := &v1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: node}}
		err := api.Get(ctx, object)
		if apierrors.IsNotFound(err) {
			return ofNode(ctx, api, node)
		}
		if err != nil {
			return Wanted{}, fmt.Errorf("read NodeNetworkState %s: %w", node, err)
		}
		w := Wanted{Reach: reachOf(object.Spec), UID: object.UID, Generation: object.Generation, Unmanaged: object.Spec.Managed != nil && !*object.Spec.Managed}
		for _, part := range object.Spec.Parts {
			w.Parts = append(w.Parts, part.Paths)
		}
		if desired := object.Spec.DesiredState; desired != nil && len(desired.Raw) > 0 {
			if err := json.Unmarshal(desired.Raw, &w.Desired); err != nil {
				w.Invalid = fmt.Sprintf("spec.desiredState: expected an object: %v", err)
			}
			w.Desired = document.Normal(w.Desired)
		}
		return w, nil
	}
}

// reachOf are the targets that an object names.
func reachOf(spec v1beta1.NodeNetworkStateSpec) (list []string) {
	for _, target := range slices.Concat(spec.Reach, spec.PolicyReach) {
		list = append(list, string(target))
	}
	return list
}

// ofNode is what a node without an object asks for: nothing. The node itself has to be.
func ofNode(ctx context.Context, api API, name string) (Wanted, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := api.Get(ctx, node); err != nil {
		return Wanted{}, fmt.Errorf("read node %s: %w", name, err)
	}
	return Wanted{NodeUID: node.UID}, nil
}
