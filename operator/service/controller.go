// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package service assigns addresses to load balancers of Alioth's class and writes
// them to the status of their Services. Its events report Services that are not served
// in a VPC or by all nodes, Services above the quota of their VPC, endpoints without
// connections, and missing addresses.
//
// Services have no finalizer of Alioth's: an address is a separate object with the UID
// of its Service, and package address releases it after the Service is deleted.
package service

import (
	"context"
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/operator/announce"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Options are the dependencies and settings of a Reconciler.
type Options struct {
	// Client writes; its reads come from the informers.
	Client  client.Client
	Store   *store.Store
	Claimer *claim.Claimer
	Events  events.EventRecorder
	Rules   Rules
}

// Reconciler applies the plans. Use New.
type Reconciler struct {
	Options

	// refused are the Services with refusals. They are checked again after a change that
	// may help.
	refused announce.Board
	shares  *shares
}

// New returns a reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{Options: options, shares: newShares()}
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("service", 2, r, r.source(f))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var service *store.Service
	var serving, external, part *tenancy.Refusal
	var w desired
	var unserved []*store.Service
	r.Store.View(func(tx store.ReadTx) {
		if service = store.GetService(tx, request.Namespace, request.Name); service != nil {
			serving, external, part = decide(tx, service, r.Rules), ungranted(tx, service), partly(tx, service, r.Rules)
			w = desiredOf(tx, service, r.Rules)
		}
		unserved = r.shares.look(tx, request.NamespacedName, service, r.Rules)
	})
	for _, other := range unserved {
		r.warn(other, exhausted)
	}
	if service == nil {
		r.notify(request.NamespacedName, &store.Service{})
		return ctrl.Result{}, nil
	}
	balancing, err := r.balance(ctx, service, w)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.notify(request.NamespacedName, service, serving, balancing, external, part)
	return ctrl.Result{}, nil
}

// balance claims the wanted addresses of a load balancer, releases all others, and
// writes its addresses to the status. It returns why addresses are missing.
func (r *Reconciler) balance(ctx context.Context, service *store.Service, w desired) (*tenancy.Refusal, error) {
	if service.LoadBalancer == "" && len(w.drop.inVPC)+len(w.drop.outside) == 0 {
		return nil, nil
	}
	object := &corev1.Service{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: service.Namespace, Name: service.Name}, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if string(object.UID) != service.UID {
		return nil, nil // a new object of the same name, whose event is still to come
	}
	if service.LoadBalancer == "" {
		if err := r.hide(ctx, object, w.drop.ips()); err != nil {
			return nil, err
		}
	}
	if err := r.release(ctx, w.drop); err != nil {
		return nil, err
	}
	if service.LoadBalancer == "" {
		return nil, nil
	}
	have, refusal, err := r.claim(ctx, w, publishedIPs(object))
	if err != nil {
		return nil, err
	}
	return refusal, r.show(ctx, object, ingressOf(have.ips()))
}

func (r *Reconciler) release(ctx context.Context, drop holdings) error {
	for _, row := range drop.inVPC {
		if err := r.Claimer.Release(ctx, row); err != nil {
			return err
		}
	}
	for _, row := range drop.outside {
		if err := r.Claimer.ReleaseExternal(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// claim returns the addresses of a desired state. If the Service requests no certain address, the
// addresses of its status are tried first: their claims may have been lost.
func (r *Reconciler) claim(ctx context.Context, w desired, before []netip.Addr) (holdings, *tenancy.Refusal, error) {
	have, err := r.claimOnce(ctx, w.preferring(before))
	var refused *ipam.Error
	if errors.As(err, &refused) {
		have, err = r.claimOnce(ctx, w)
	}
	switch {
	case errors.As(err, &refused):
		return w.keep, &tenancy.Refusal{Reason: refused.Reason, Message: refused.Message}, nil
	case errors.Is(err, claim.ErrUnsettled), errors.Is(err, claim.ErrHolderGone):
		return w.keep, nil, nil // requested again once the term is settled, or by the Service's event
	}
	return have, w.refusal, err
}

func (r *Reconciler) claimOnce(ctx context.Context, w desired) (have holdings, err error) {
	switch {
	case w.request != nil:
		have.inVPC, err = r.Claimer.Claim(ctx, *w.request, nil)
	case w.external != nil:
		have.outside, err = r.Claimer.ClaimExternal(ctx, *w.external)
	default:
		have = w.keep
	}
	return have, err
}

// notify writes an event for each refusal that this Service object did not have
// before.
func (r *Reconciler) notify(name types.NamespacedName, service *store.Service, refusals ...*tenancy.Refusal) {
	for _, refusal := range r.refused.News(name, service.UID, refusals...) {
		r.warn(service, refusal)
	}
}

func (r *Reconciler) warn(service *store.Service, refusal tenancy.Refusal) {
	about := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name, UID: types.UID(service.UID)},
	}
	r.Events.Eventf(about, nil, corev1.EventTypeWarning, refusal.Reason, "ServeInVPC", "%s", refusal.Message)
}
