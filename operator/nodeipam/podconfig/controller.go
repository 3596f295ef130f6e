// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podconfig reports the interfaces of pods in PodNetworks in
// MultitenantPodNetworkConfigs. Nothing that Alioth decides depends on them.
package podconfig

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
)

// workers is how many configs are written at once.
const workers = 4

// Reconciler keeps the configs of one group as decide wants them.
type Reconciler struct {
	Group string
	// Client writes; its reads come from the informers.
	Client client.Client
	Store  store.Central
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add(Name(r.Group), workers, r, source(f, r.Store))
}

// Name returns the name of the controller of a group.
func Name(group string) string { return "podnetworkconfig." + group }

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var want *content
	r.Store.View(func(tx store.ReadTx) { want = decide(tx, store.PodByName(tx, request.Namespace, request.Name)) })
	object := ipamapi.PodNetworkConfigs[r.Group].NewObject().(client.Object)
	err := r.Client.Get(ctx, request.NamespacedName, object)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, fmt.Errorf("read the config of pod %s: %w", request.NamespacedName, err)
	case err != nil && want == nil:
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, r.create(ctx, request.NamespacedName, want)
	case want == nil || !isOf(object, want):
		// The config belongs to a former pod, or to an earlier request of the pod: its deletion
		// requests the pod again.
		uid := object.GetUID()
		return ctrl.Result{}, client.IgnoreNotFound(r.Client.Delete(ctx, object, client.Preconditions{UID: &uid}))
	case object.GetDeletionTimestamp() != nil:
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.report(ctx, object, want)
}

// create makes a config, and writes its status. If a config exists although the informer does not
// have it yet, the event of the config requests it again.
func (r *Reconciler) create(ctx context.Context, name types.NamespacedName, want *content) error {
	object := ipamapi.PodNetworkConfigs[r.Group].NewObject().(client.Object)
	object.SetNamespace(name.Namespace)
	object.SetName(name.Name)
	object.SetOwnerReferences([]metav1.OwnerReference{owner(want)})
	setSpec(object, want)
	err := r.Client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the config of pod %s: %w", name, err)
	}
	return r.report(ctx, object, want)
}

func (r *Reconciler) report(ctx context.Context, object client.Object, want *content) error {
	before := object.DeepCopyObject().(client.Object)
	setStatus(object, want)
	return write.Status(ctx, r.Client, before, object)
}
