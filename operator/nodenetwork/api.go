// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenetwork

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/store/client/kube"
)

// API is the API server as package cnid/nmstate/policy/policyhandler wants it.
type API struct {
	// Client writes, if this process leads.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
}

// Create creates the object, and reads the created object into object.
func (a API) Create(ctx context.Context, object kube.Object) error {
	return a.Client.Create(ctx, object)
}

// Patch changes the object of object's name, or its subresource status, and leaves object as
// it is.
func (a API) Patch(
	ctx context.Context,
	object kube.Object,
	kind types.PatchType,
	data []byte,
	subresource ...string,
) error {
	answer := object.DeepCopyObject().(client.Object)
	patch := client.RawPatch(kind, data)
	switch {
	case len(subresource) == 0:
		return a.Client.Patch(ctx, answer, patch)
	case len(subresource) == 1 && subresource[0] == "status":
		return a.Client.Status().Patch(ctx, answer, patch)
	}
	return fmt.Errorf("patch %T: no subresource %v: the only one is status", object, subresource)
}

// Delete deletes the object of object's name if it has this UID.
func (a API) Delete(ctx context.Context, object kube.Object, uid types.UID) error {
	return a.Client.Delete(ctx, object, client.Preconditions{UID: &uid})
}

// Get reads the object of object's name into object.
func (a API) Get(ctx context.Context, object kube.Object) error {
	return a.Live.Get(ctx, client.ObjectKeyFromObject(object), object)
}

// List reads all objects in a namespace ("" for all) that the field selector ("" for all)
// selects into the list.
func (a API) List(ctx context.Context, list runtime.Object, namespace, selector string) error {
	typed, ok := list.(client.ObjectList)
	if !ok {
		return fmt.Errorf("list %T: it is no list of objects", list)
	}
	selected, err := fields.ParseSelector(selector)
	if err != nil {
		return fmt.Errorf("list %T: %w", list, err)
	}
	return a.Live.List(ctx, typed, &client.ListOptions{Namespace: namespace, FieldSelector: selected})
}

// Node returns a node from the informers.
func (a API) Node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := a.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil, err
	}
	return node, nil
}

// Nodes returns all nodes from the informers.
func (a API) Nodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	return list.Items, nil
}
