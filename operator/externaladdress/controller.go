// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package externaladdress elects the nodes that announce external addresses, and
// releases those whose Service is gone.
package externaladdress

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

// lookAfter delays a request, so that it covers several changes of endpoints.
const lookAfter = time.Second

// Reconciler applies the decisions of decide.
type Reconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	// Live reads from the API server.
	Live       client.Reader
	Store      *store.Store
	Claimer    *claim.Claimer
	DefaultVPC string
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("externaladdress", 1, r, source(f))
}

// Reconcile implements reconcile.Reconciler. The name is the IP.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ip, err := netip.ParseAddr(request.Name)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("external address: %w", err)
	}
	var row *external.Address
	var d decision
	r.Store.View(func(tx store.ReadTx) {
		if row = external.GetAddress(tx, ip); row != nil {
			d = decide(tx, row, r.DefaultVPC)
		}
	})
	switch {
	case row == nil || row.Deleting:
		return ctrl.Result{}, nil
	case d.release:
		return ctrl.Result{}, r.release(ctx, row)
	case row.UID == "": // it is requested again once it is in the API
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.appoint(ctx, row, d.node)
}

// release deletes an address once the API server confirms that its Service is
// gone: the store may be a moment behind.
func (r *Reconciler) release(ctx context.Context, row *external.Address) error {
	if row.UID != "" {
		service := &corev1.Service{}
		key := client.ObjectKey{Namespace: row.Holder.Namespace, Name: row.Holder.Name}
		if err := r.Live.Get(ctx, key, service); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get Service %s: %w", key, err)
		}
		if string(service.UID) == row.Holder.UID {
			return nil
		}
	}
	return r.Claimer.ReleaseExternal(ctx, row)
}

// appoint writes which node announces an address.
func (r *Reconciler) appoint(ctx context.Context, row *external.Address, node string) error {
	object := &v1alpha1.ExternalAddress{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ExternalAddressName(row.IP)}, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := object.DeepCopy()
	object.Status.Node = node
	if node != quote.Name(before.Status.Node) {
		ctrl.LoggerFrom(ctx).
			Info("assigned an external address to a node", "address", row.IP, "node", node, "before", quote.Name(before.Status.Node))
	}
	return write.Status(ctx, r.Client, before, object)
}

// source requests an address when it or its Service changes, and when an endpoint
// changes of a Service that only nodes with endpoints announce. It requests all
// addresses when a node is added, removed, or changed in this respect.
func source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, func(tx store.ReadTx) []feed.Request { return of(external.ListAddresses(tx), 0) },
		feed.On(func(_ store.ReadTx, old, now *external.Address) []feed.Request {
			return of([]*external.Address{feed.Either(old, now)}, 0)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Service) []feed.Request {
			if now != nil && old != nil && old.ExternalNodeLocal == now.ExternalNodeLocal &&
				old.ByBackendsHere() == now.ByBackendsHere() &&
				old.Network == now.Network {
				return nil
			}
			return of(external.AddressesByService(tx, feed.Either(old, now).UID), 0)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.EndpointSlice) []feed.Request {
			slice := feed.Either(old, now)
			return ofByBackends(tx, slice.Namespace, slice.Service)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Address) []feed.Request {
			if old != nil && now != nil {
				return nil
			}
			return ofAllByBackends(tx)
		}),
		feed.On(ofNamespace),
		feed.On(func(tx store.ReadTx, old, now *store.Node) []feed.Request {
			if old != nil && now != nil && old.UID == now.UID && old.MayAnnounce() == now.MayAnnounce() &&
				old.OutOfService == now.OutOfService {
				return nil
			}
			return of(external.ListAddresses(tx), 0)
		}),
	)
}

// ofNamespace requests all addresses that depend on backends, when the tenant of a
// namespace changes: some Services lead to pods of their own tenant only.
func ofNamespace(tx store.ReadTx, old, now *store.Namespace) []feed.Request {
	if old != nil && now != nil && old.Tenant == now.Tenant {
		return nil
	}
	return ofAllByBackends(tx)
}

func ofByBackends(tx store.ReadTx, namespace, name string) []feed.Request {
	service := store.GetService(tx, namespace, name)
	if service == nil || !service.ByBackendsHere() {
		return nil
	}
	return of(external.AddressesByService(tx, service.UID), lookAfter)
}

func ofAllByBackends(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for _, address := range external.ListAddresses(tx) {
		all = append(all, ofByBackends(tx, address.Holder.Namespace, address.Holder.Name)...)
	}
	return all
}

func of(addresses []*external.Address, after time.Duration) []feed.Request {
	var all []feed.Request
	for _, address := range addresses {
		all = append(all, feed.Later(after, "", address.IP.String()))
	}
	return all
}
