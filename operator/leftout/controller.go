// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leftout tells in the status of objects that the store leaves them out, because they
// can't be read or contradict themselves (docs/design/023). Their own controllers tell nothing
// of such an object. They write the condition again once the object can be read.
package leftout

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/descriptor"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/store/kube"
)

// Kinds are those whose objects may be left out and have the condition Ready.
func Kinds() []*descriptor.Kind {
	return []*descriptor.Kind{vpcs.VPC.Kind, vpcs.Subnet.Kind, vpcs.Network.Kind, vpcs.ExternalPool.Kind, vpcs.HostAccess.Kind}
}

// Row returns the row of an object, nil if the object is left out. An object that is being
// deleted is let go also if it contradicts itself.
func Row[O kube.Object, R any](kind descriptor.Of[O, R], object O) *R {
	row, err := kind.Convert(object)
	if err != nil || row == nil || kind.Check(row) != nil && object.GetDeletionTimestamp() == nil {
		return nil
	}
	return row
}

// Leaving are the objects of a kind that are left out and are being deleted, as requests to the
// controller of the kind. The store has no event of them, and their finalizer has to go.
func Leaving(f *feed.Feed, kind *descriptor.Kind) (all []feed.Request) {
	for _, one := range f.LeftOut() {
		all = append(all, leaving(&one, kind)...)
	}
	return all
}

// OnLeaving requests them as they come.
func OnLeaving(kind *descriptor.Kind) feed.Mapper {
	return feed.On(func(_ store.ReadTx, _, now *descriptor.LeftOut) []feed.Request { return leaving(now, kind) })
}

func leaving(one *descriptor.LeftOut, kind *descriptor.Kind) []feed.Request {
	if one == nil || !one.Deleting || one.Kind != kind {
		return nil
	}
	return []feed.Request{feed.Now(one.Namespace, one.Name)}
}

// Reconciler writes the condition.
type Reconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	Feed   *feed.Feed
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	f.OnLeftOut(func(one descriptor.LeftOut) { f.Publish(feed.Change{New: &one}) })
	return controllers.Add("leftout", 1, r, feed.NewSource(f,
		func(store.ReadTx) (all []feed.Request) {
			for _, one := range f.LeftOut() {
				all = append(all, of(&one)...)
			}
			return all
		},
		feed.On(func(_ store.ReadTx, _, now *descriptor.LeftOut) []feed.Request { return of(now) }),
	).ByTurns())
}

// of requests an object that is left out. A conflict may be over with the next event, and the
// object's own controller tells of one that lasts.
func of(one *descriptor.LeftOut) []feed.Request {
	if one == nil || one.Reason == descriptor.Conflict || !slices.Contains(Kinds(), one.Kind) {
		return nil
	}
	return []feed.Request{feed.Now(one.Namespace, one.Kind.Name+"/"+one.Name)}
}

// Reconcile implements reconcile.Reconciler. The name in the request is <kind>/<name>.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	kind, name, _ := strings.Cut(request.Name, "/")
	for _, one := range r.Feed.LeftOut() {
		if one.Kind.Name == kind && one.Namespace == request.Namespace && one.Name == name && len(of(&one)) > 0 {
			return ctrl.Result{}, r.tell(ctx, one)
		}
	}
	return ctrl.Result{}, nil // it can be read by now, or is gone
}

// tell writes the condition of an object.
func (r *Reconciler) tell(ctx context.Context, one descriptor.LeftOut) error {
	object, ok := one.Kind.NewObject().(client.Object)
	if !ok {
		return fmt.Errorf("tell of %s: unexpected type %T", one.Object(), one.Kind.Object)
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: one.Namespace, Name: one.Name}, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	if string(object.GetUID()) != one.UID {
		return nil // a successor, of which there is an event
	}
	before := object.DeepCopyObject().(client.Object)
	write.SetCondition(conditionsOf(object), object.GetGeneration(), v1alpha1.ReadyCondition, false, v1alpha1.ObjectLeftOutReason,
		fmt.Sprintf("Alioth leaves this object out: %s; correct or delete it; until then the last version counts that could be read, if there was one", one.Why))
	return write.Status(ctx, r.Client, before, object)
}

// conditionsOf are those in the status of an object of Kinds.
func conditionsOf(object client.Object) *[]metav1.Condition {
	return reflect.ValueOf(object).Elem().FieldByName("Status").FieldByName("Conditions").Addr().Interface().(*[]metav1.Condition)
}
