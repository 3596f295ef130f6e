// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/nmstate/document"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/store/rows/nmstate"
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
		w := Wanted{
			UID:        object.UID,
			Generation: object.Generation,
			Unmanaged:  object.Spec.Managed != nil && !*object.Spec.Managed,
		}
		w.Reach, w.PolicyReach, w.Parts = texts(object.Spec.Reach), texts(object.Spec.PolicyReach), partsOf(object.Spec.Parts)
		if desired := object.Spec.DesiredState; desired != nil && len(desired.Raw) > 0 {
			if err := json.Unmarshal(desired.Raw, &w.Desired); err != nil {
				w.Invalid = fmt.Sprintf("spec.desiredState: expected an object: %v", err)
			}
			w.Desired = document.Normal(w.Desired)
		}
		return w, nil
	}
}

func texts(targets []nmstatev1.ReachTarget) (list []string) {
	for _, target := range targets {
		list = append(list, string(target))
	}
	return list
}

func partsOf(parts []v1beta1.Part) (list []nmstate.Part) {
	for _, part := range parts {
		list = append(list, nmstate.Part{Paths: part.Paths, Reach: part.Reach})
	}
	return list
}

// ofNode returns the demands of a node without an object: none, beside the UID of the node. The
// Node object has to exist.
func ofNode(ctx context.Context, api API, name string) (Wanted, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := api.Get(ctx, node); err != nil {
		return Wanted{}, fmt.Errorf("read node %s: %w", name, err)
	}
	return Wanted{NodeUID: node.UID}, nil
}
