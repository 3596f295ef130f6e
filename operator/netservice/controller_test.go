// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/core"
)

// rig is a reconciler over a fake API. Its informers have always seen all slices.
type rig struct {
	t *testing.T
	client.Client
	store *store.Store
	*Reconciler
	// writes counts the requests that change something. The one with the number failAt gets
	// an error before its effect, or after it if late.
	writes, failAt int
	late           bool
}

var errCrash = errors.New("the process ends here")

func newRig(t *testing.T, rows []any, objects ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, store: operatortest.New(t, rows...), failAt: -1}
	r.Client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return r.write(func() error { return c.Create(ctx, object, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return r.write(func() error { return c.Update(ctx, object, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return r.write(func() error { return c.Delete(ctx, object, options...) })
		},
	})
	r.restart()
	return r
}

func (r *rig) write(effect func() error) error {
	r.writes++
	if r.writes-1 != r.failAt {
		return effect()
	}
	if r.late {
		if err := effect(); err != nil {
			return err
		}
	}
	return errCrash
}

// restart replaces the process: nothing in its memory remains.
func (r *rig) restart() {
	r.Reconciler = New(Options{
		Client: r.Client, Live: r.Client, Store: r.store, Events: events.NewFakeRecorder(100), Rules: rules, Endpoints: true,
	})
}

// look is one call of the reconciler, after the informers have brought all slices.
func (r *rig) look() error {
	r.t.Helper()
	var list discoveryv1.EndpointSliceList
	if err := r.List(r.t.Context(), &list); err != nil {
		r.t.Fatal(err)
	}
	err := r.store.Update(func(tx store.Tx) error {
		for _, row := range store.EndpointSlicesByService(tx, "blue", "web") {
			store.DeleteEndpointSlice(tx, row.Namespace, row.Name, row.UID)
			r.tracker.HandleDeletion(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
				Namespace: row.Namespace, UID: types.UID(row.UID), Labels: map[string]string{discoveryv1.LabelServiceName: row.Service},
			}})
		}
		for i := range list.Items {
			row, err := core.EndpointSlice.Row(&list.Items[i])
			if err != nil {
				return err
			}
			if err := core.EndpointSlice.Put(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = r.Reconcile(r.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "web"}})
	return err
}

func (r *rig) mustLook() {
	r.t.Helper()
	if err := r.look(); err != nil {
		r.t.Fatal(err)
	}
}

// put replaces the row of the Service.
func (r *rig) put(service *store.Service) {
	r.t.Helper()
	err := r.store.Update(func(tx store.Tx) error {
		store.DeleteService(tx, service.Namespace, service.Name, service.UID)
		return store.PutService(tx, service)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// state returns the number of endpoints in each slice, ascending, and of addresses in the
// Endpoints object, -1 without one.
func (r *rig) state() (inSlices []int, inEndpoints int) {
	r.t.Helper()
	var list discoveryv1.EndpointSliceList
	if err := r.List(r.t.Context(), &list); err != nil {
		r.t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, slice := range list.Items {
		inSlices = append(inSlices, len(slice.Endpoints))
		for _, endpoint := range slice.Endpoints {
			if seen[endpoint.Addresses[0]] {
				r.t.Errorf("%s is an endpoint twice", endpoint.Addresses[0])
			}
			seen[endpoint.Addresses[0]] = true
		}
	}
	slices.Sort(inSlices)
	object := &endpoints{}
	switch err := r.Get(r.t.Context(), client.ObjectKey{Namespace: "blue", Name: "web"}, object); {
	case apierrors.IsNotFound(err):
		return inSlices, -1
	case err != nil:
		r.t.Fatal(err)
	}
	for _, subset := range object.Subsets {
		inEndpoints += len(subset.Addresses) + len(subset.NotReadyAddresses)
	}
	return inSlices, inEndpoints
}

// onLAN returns a Service with a number of pods in one network as rows, and as an object.
func onLAN(pods int) (rows []any, objects []client.Object, service *store.Service) {
	lan := outside("DanmNet", "blue", "lan")
	service = selectingIn(named("DanmNet", "lan"))
	rows = base(lan, service, &store.Node{Meta: operatortest.Meta("uid-node", 0), Name: "node-1", Zone: "west"})
	objects = append(objects, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "web", UID: types.UID(service.UID)},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	})
	for i := range pods {
		p := pod(fmt.Sprintf("p%d", i))
		p.Endpoint = &store.PodEndpoint{Ready: true}
		rows = append(append(rows, p), attached(p, "lan1", lan.Reference(), fmt.Sprintf("192.168.%d.%d", i/200, 2+i%200))...)
	}
	return rows, objects, service
}

// After a process that ends at any write, before or after its effect, another process completes the
// work. If the annotations go meanwhile, it removes the work.
func TestReconcile_ProcessEndsAtEachWrite_OtherCompletes(t *testing.T) {
	for _, gone := range []bool{false, true} {
		for _, late := range []bool{false, true} {
			for failAt := 0; ; failAt++ {
				rows, objects, service := onLAN(3)
				r := newRig(t, rows, objects...)
				r.failAt, r.late = failAt, late
				if !gone {
					if err := r.look(); err == nil { // the pass makes fewer writes than this number
						break
					}
					r.restart()
					r.mustLook()
					if inSlices, inEndpoints := r.state(); !slices.Equal(inSlices, []int{3}) || inEndpoints != 3 {
						t.Errorf("after an end at write %d (late %v): slices with %v, Endpoints with %d", failAt, late, inSlices, inEndpoints)
					}
					continue
				}
				r.failAt = -1
				r.mustLook()
				r.writes, r.failAt = 0, failAt
				plain := *service
				plain.Endpoints = nil
				r.put(&plain)
				if err := r.look(); err == nil {
					break
				}
				r.restart()
				r.mustLook()
				if inSlices, inEndpoints := r.state(); len(inSlices) > 0 || inEndpoints != -1 {
					t.Errorf("after an end at write %d (late %v) of the removal: slices with %v, Endpoints with %d", failAt, late, inSlices, inEndpoints)
				}
			}
		}
	}
}

func TestSlices_ManyEndpoints_SplitAndChangesSmall(t *testing.T) {
	rows, objects, service := onLAN(250)
	r := newRig(t, rows, objects...)
	r.mustLook()
	if inSlices, inEndpoints := r.state(); !slices.Equal(inSlices, []int{50, 100, 100}) || inEndpoints != 250 {
		t.Fatalf("slices with %v, Endpoints with %d", inSlices, inEndpoints)
	}
	r.writes = 0
	r.mustLook()
	if r.writes > 0 {
		t.Errorf("%d writes without a change", r.writes)
	}
	unready7 := pod("p7")
	unready7.Endpoint = &store.PodEndpoint{}
	if err := r.store.Update(func(tx store.Tx) error { return store.PutPod(tx, unready7) }); err != nil {
		t.Fatal(err)
	}
	r.writes = 0
	r.mustLook()
	if r.writes != 2 {
		t.Errorf("%d writes for a pod that is not ready, want one slice and the Endpoints", r.writes)
	}
	var list discoveryv1.EndpointSliceList
	if err := r.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	unready := 0
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			if !*endpoint.Conditions.Ready {
				unready++
			}
			if *endpoint.Zone != "west" {
				t.Errorf("endpoint %v is in no zone", endpoint.Addresses)
			}
		}
	}
	if unready != 1 {
		t.Errorf("%d endpoints are not ready", unready)
	}
	gone := *service
	gone.Deleting = true
	r.put(&gone)
	r.mustLook()
	if inSlices, inEndpoints := r.state(); len(inSlices) > 0 || inEndpoints != -1 {
		t.Errorf("of a Service that goes: slices with %v, Endpoints with %d", inSlices, inEndpoints)
	}
}

func TestEndpoints_TooManyAddresses_RestLeftOut(t *testing.T) {
	rows, objects, _ := onLAN(1001)
	r := newRig(t, rows, objects...)
	r.mustLook()
	inSlices, inEndpoints := r.state()
	if len(inSlices) != 11 || inEndpoints != 1000 {
		t.Errorf("%d slices, Endpoints with %d", len(inSlices), inEndpoints)
	}
	object := &endpoints{}
	if err := r.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "web"}, object); err != nil {
		t.Fatal(err)
	}
	if object.Annotations[corev1.EndpointsOverCapacity] != "truncated" {
		t.Errorf("the annotations are %v", object.Annotations)
	}
}

// A reconciler whose informers lag behind its own writes must not write a second set.
func TestReconcile_OwnSlicesUnseen_PutOff(t *testing.T) {
	rows, objects, _ := onLAN(3)
	r := newRig(t, rows, objects...)
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "web"}}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	_, err := r.Reconcile(t.Context(), request) // the store has no row of the slice
	if !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	if inSlices, _ := r.state(); !slices.Equal(inSlices, []int{3}) {
		t.Errorf("slices with %v", inSlices)
	}
	r.mustLook()
}
