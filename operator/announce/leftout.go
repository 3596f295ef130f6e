// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

// LeftOut announces objects that the store leaves out, by an event on the object. Objects that were
// left out before leading was closed are announced with the first change after that.
func LeftOut(f *feed.Feed, recorder events.EventRecorder, leading <-chan struct{}) {
	l := &leftOut{recorder: recorder, leading: leading}
	f.OnLeftOut(l.add)
	f.Subscribe(func(feed.Change) { l.flush() })
}

// leftOut keeps the announcements to make until this process leads.
type leftOut struct {
	recorder events.EventRecorder
	leading  <-chan struct{}

	mu      sync.Mutex
	waiting map[string]descriptor.LeftOut
}

// add takes an object. It leaves out conflicts, because the next event may end one, and the
// conditions of the kind report a conflict that lasts.
func (l *leftOut) add(one descriptor.LeftOut) {
	if one.Reason == descriptor.Conflict {
		return
	}
	l.mu.Lock()
	if l.waiting == nil {
		l.waiting = map[string]descriptor.LeftOut{}
	}
	l.waiting[one.Object()] = one // of each object the last cause
	l.mu.Unlock()
	l.flush()
}

// flush writes the events if this process leads.
func (l *leftOut) flush() {
	select {
	case <-l.leading:
	default:
		return // the leader announces them
	}
	l.mu.Lock()
	list := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	for _, one := range list {
		l.recorder.Eventf(about(one.Kind, one.ID), nil, corev1.EventTypeWarning, v1alpha1.ObjectLeftOutReason, "Read",
			"Alioth leaves this object out: %s; correct or delete it", one.Why)
	}
}

// LeftOutKinds are those whose objects may be left out and have the condition Ready.
func LeftOutKinds() []*descriptor.Kind {
	return []*descriptor.Kind{
		vpcs.VPC.Kind,
		vpcs.Subnet.Kind,
		vpcs.Network.Kind,
		vpcs.ExternalPool.Kind,
		vpcs.HostAccess.Kind,
	}
}

// LeftOutReconciler writes into the status of objects that the store leaves them out, because they
// can't be read or contradict themselves (docs/design/023). Their own controllers tell nothing of
// such an object. They write the condition again once the object can be read.
type LeftOutReconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	Feed   *feed.Feed
}

// RegisterLeftOut adds the controller.
func RegisterLeftOut(controllers feed.Controllers, f *feed.Feed, r *LeftOutReconciler) error {
	f.OnLeftOut(func(one descriptor.LeftOut) { f.Publish(feed.Change{New: &one}) })
	return controllers.Add("leftout", 1, r, feed.NewSource(f,
		func(store.ReadTx) (all []feed.Request) {
			for _, one := range f.LeftOut() {
				all = append(all, leftOutRequests(&one)...)
			}
			return all
		},
		feed.On(func(_ store.ReadTx, _, now *descriptor.LeftOut) []feed.Request { return leftOutRequests(now) }),
	).ByTurns())
}

// leftOutRequests requests an object that is left out. It ignores conflicts, because the next event
// may end one, and the object's own controller reports a conflict that lasts.
func leftOutRequests(one *descriptor.LeftOut) []feed.Request {
	if one == nil || one.Reason == descriptor.Conflict || !slices.Contains(LeftOutKinds(), one.Kind) {
		return nil
	}
	return []feed.Request{feed.Now(one.Namespace, one.Kind.Name+"/"+one.Name)}
}

// Reconcile implements reconcile.Reconciler. The name in the request is <kind>/<name>.
func (r *LeftOutReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	kind, name, _ := strings.Cut(request.Name, "/")
	for _, one := range r.Feed.LeftOut() {
		if one.Kind.Name == kind && one.Namespace == request.Namespace && one.Name == name && len(leftOutRequests(&one)) > 0 {
			return ctrl.Result{}, r.tell(ctx, one)
		}
	}
	return ctrl.Result{}, nil // it can be read by now, or is gone
}

// tell writes the condition of an object.
func (r *LeftOutReconciler) tell(ctx context.Context, one descriptor.LeftOut) error {
	object, ok := one.Kind.NewObject().(client.Object)
	if !ok {
		return fmt.Errorf("tell of %s: unexpected type %T", one.Object(), one.Kind.Object)
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: one.Namespace, Name: one.Name}, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	if string(object.GetUID()) != one.UID {
		return nil // a successor, which has an event of its own
	}
	before := object.DeepCopyObject().(client.Object)
	write.SetCondition(
		conditionsOf(object),
		object.GetGeneration(),
		v1alpha1.ReadyCondition,
		false,
		v1alpha1.ObjectLeftOutReason,
		fmt.Sprintf(
			"Alioth leaves this object out: %s; correct or delete it; until then the last version counts that could be read, if there was one",
			one.Why,
		),
	)
	return write.Status(ctx, r.Client, before, object)
}

// conditionsOf returns the conditions in the status of an object of LeftOutKinds.
func conditionsOf(object client.Object) *[]metav1.Condition {
	return reflect.ValueOf(object).Elem().FieldByName("Status").FieldByName("Conditions").Addr().Interface().(*[]metav1.Condition)
}
