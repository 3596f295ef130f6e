// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netservice writes the EndpointSlices and Endpoints of Services without a selector whose
// annotations select pods and networks: the endpoints are the addresses that the pods hold in these
// networks. The Svcwatcher of DANM does the same; this package does it for every network.
//
// The endpoints depend on the labels of a pod, and on nothing else that a tenant writes there. An
// address comes from an Address object, which the operator has made for the pod's UID.
package netservice

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	endpointsliceutil "k8s.io/endpointslice/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/operator/announce"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// tolerateUnready is an annotation that Kubernetes had before publishNotReadyAddresses.
const tolerateUnready = "service.alpha.kubernetes.io/tolerate-unready-endpoints"

// foreignAgain is how often the Endpoints of another program are looked at again: the
// operator does not watch Endpoints.
const foreignAgain = time.Minute

// Options are the dependencies and settings of a Reconciler.
type Options struct {
	// Client writes; its reads come from the informers. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	Store  *store.Store
	Events events.EventRecorder
	Rules  Rules
	// Endpoints: Endpoints objects are written beside the EndpointSlices.
	Endpoints bool
}

// Reconciler applies the decisions. Use New.
type Reconciler struct {
	Options
	// tracker knows which writes of slices the informers have not seen yet.
	tracker *endpointsliceutil.EndpointSliceTracker
	wrote   wrote
	board   announce.Board
}

// New returns a reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{Options: options, tracker: endpointsliceutil.NewEndpointSliceTracker()}
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("netservice", 2, r, r.source(f))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var service *store.Service
	var names []string
	var d decision
	r.Store.View(func(tx store.ReadTx) {
		if service = store.GetService(tx, request.Namespace, request.Name); service != nil {
			d = decide(tx, service, r.Rules)
		}
		for _, slice := range store.EndpointSlicesByService(tx, request.Namespace, request.Name) {
			if slice.Managed {
				names = append(names, slice.Name)
			}
		}
	})
	present, err := r.slices(ctx, request.Namespace, names)
	if err != nil {
		return ctrl.Result{}, err
	}
	if service == nil || len(d.members) == 0 {
		err := r.remove(ctx, request.NamespacedName, service, present)
		r.report(request.NamespacedName, service, d.refusals)
		return ctrl.Result{}, err
	}
	refusal, err := r.write(ctx, service, d.members, present)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.report(request.NamespacedName, service, append(d.refusals, refusal))
	if refusal != nil {
		return ctrl.Result{RequeueAfter: foreignAgain}, nil
	}
	return ctrl.Result{}, nil
}

// slices returns the EndpointSlices of these names that the informers have.
func (r *Reconciler) slices(
	ctx context.Context,
	namespace string,
	names []string,
) ([]*discoveryv1.EndpointSlice, error) {
	var list []*discoveryv1.EndpointSlice
	for _, name := range names {
		slice := &discoveryv1.EndpointSlice{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, slice); client.IgnoreNotFound(
			err,
		) != nil {
			return nil, err
		} else if err == nil {
			list = append(list, slice)
		}
	}
	return list, nil
}

// remove removes the objects that were made for a Service without endpoints, or for a Service that
// is gone. The slices go last: as long as there is one, a restarted operator looks for Endpoints.
func (r *Reconciler) remove(
	ctx context.Context,
	name types.NamespacedName,
	service *store.Service,
	present []*discoveryv1.EndpointSlice,
) error {
	uid, selects := "", false
	if service != nil {
		uid, selects = service.UID, service.Endpoints != nil
	}
	if len(present) > 0 || selects || r.wrote.forget(name) {
		if _, err := r.writeEndpoints(ctx, name, uid, nil); err != nil {
			return err
		}
	}
	if !selects {
		r.wrote.forget(name)
	}
	err := r.deleteSlices(ctx, present)
	if service == nil && err == nil {
		r.tracker.DeleteService(name.Namespace, name.Name)
	}
	return err
}

// write writes slices and Endpoints of a Service with members.
func (r *Reconciler) write(
	ctx context.Context,
	row *store.Service,
	members map[string][]member,
	present []*discoveryv1.EndpointSlice,
) (*tenancy.Refusal, error) {
	service := &corev1.Service{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: row.Namespace, Name: row.Name}, service); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if string(service.UID) != row.UID {
		return nil, nil // a new object of the same name, whose event is still to come
	}
	if service.Annotations[tolerateUnready] == "true" {
		service.Spec.PublishNotReadyAddresses = true
	}
	pods, all := podsOf(service, members)
	if err := r.writeSlices(ctx, service, pods, present); err != nil {
		return nil, err
	}
	var wanted *endpoints
	if r.Endpoints {
		wanted = endpointsFor(service, all)
	}
	return r.writeEndpoints(ctx, client.ObjectKeyFromObject(service), row.UID, wanted)
}

// report writes an event for each refusal that this Service did not have before.
func (r *Reconciler) report(name types.NamespacedName, service *store.Service, refusals []*tenancy.Refusal) {
	if service == nil {
		r.board.News(name, "")
		return
	}
	about := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name, UID: types.UID(service.UID)},
	}
	for _, refusal := range r.board.News(name, service.UID, refusals...) {
		r.Events.Eventf(about, nil, corev1.EventTypeWarning, refusal.Reason, "SelectEndpoints", "%s", refusal.Message)
	}
}
