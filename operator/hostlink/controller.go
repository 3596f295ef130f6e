// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostlink writes a HostLink object for each device, and each VLAN and VXLAN of the
// nodes, that networks outside of every VPC are on. The nodes make the links, and report
// missing devices (docs/design/116).
package hostlink

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Reconciler keeps the HostLink of each number equal to the wishes of the networks.
type Reconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	Store  *store.Store
	// Numbers is how many links the definitions of a namespace may have; 0 for any number.
	Numbers int
	// Delegation: NetworkAttachmentDefinitions with a configuration have links too.
	Delegation bool
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("hostlink", 1, r, source(f, r.Numbers))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var want *v1alpha1.HostLinkSpec
	if linkType, vni, device, ok := v1alpha1.ParseHostLinkName(request.Name); ok {
		r.Store.View(func(tx store.ReadTx) { want = r.wanted(tx, multinet.LinkID{Device: device, Type: linkType, VNI: vni}) })
	}
	held := &v1alpha1.HostLink{}
	err := r.Client.Get(ctx, request.NamespacedName, held)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, fmt.Errorf("read HostLink %s: %w", request.Name, err)
	case err != nil && want == nil:
		return ctrl.Result{}, nil
	case err != nil:
		held = &v1alpha1.HostLink{ObjectMeta: metav1.ObjectMeta{Name: request.Name}, Spec: *want}
		return ctrl.Result{}, r.logDone(ctx, "created", request.Name, r.Client.Create(ctx, held))
	case want == nil:
		err := r.Client.Delete(ctx, held, client.Preconditions{UID: &held.UID})
		return ctrl.Result{}, r.logDone(ctx, "deleted", request.Name, client.IgnoreNotFound(err))
	case held.Spec != *want:
		changed := held.DeepCopy()
		changed.Spec = *want
		return ctrl.Result{}, r.logDone(ctx, "changed", request.Name, r.Client.Update(ctx, changed))
	}
	return ctrl.Result{}, nil
}

// logDone logs a completed change. If an object exists although the informer does not have it yet, the
// event of the object requests it again.
func (r *Reconciler) logDone(ctx context.Context, done, name string, err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("HostLink %s is not %s: %w", name, done, err)
	}
	ctrl.LoggerFrom(ctx).Info("HostLink "+done, "name", name)
	return nil
}

// source requests a link when a network on it changes, or begins or ends to have pods.
func source(f *feed.Feed, limit int) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(func(_ store.ReadTx, old, now *multinet.HostLink) []feed.Request {
			return []feed.Request{feed.Now("", feed.Either(old, now).Name)}
		}),
		feed.On(func(_ store.ReadTx, old, now *multinet.Network) []feed.Request { return append(of(old), of(now)...) }),
		feed.On(func(tx store.ReadTx, old, now *multinet.Claim) []feed.Request {
			network := feed.Either(old, now).Network
			if network.Kind == multinet.KindDefinition {
				return ofDefinition(multinet.GetDefinition(tx, network.Namespace, network.Name))
			}
			return of(multinet.ByDomain(tx, network.Domain()))
		}),
		feed.On(func(tx store.ReadTx, old, now *multinet.Definition) []feed.Request {
			all := append(ofDefinition(old), ofDefinition(now)...)
			if old != nil && (now == nil || now.Link != old.Link) {
				all = append(all, ofNextDefinitions(tx, old, limit)...)
			}
			return all
		}),
		feed.On(ofNamespace),
		feed.On(func(tx store.ReadTx, _, _ *multinet.Grant) []feed.Request { return ofDefinitions(tx) }),
		feed.On(func(tx store.ReadTx, _, _ *multinet.TenantConfig) []feed.Request { return ofDefinitions(tx) }),
		feed.On(func(_ store.ReadTx, old, now *multinet.HostVNIClaim) []feed.Request {
			claim := feed.Either(old, now)
			return request(multinet.LinkID{Device: claim.Device, Type: claim.Type, VNI: claim.VNI})
		}),
	)
}

// everything requests the links that exist, and the links that networks name.
func everything(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for link := range multinet.HostLinks(tx) {
		all = append(all, feed.Now("", link.Name))
	}
	for net := range multinet.Networks(tx) {
		all = append(all, of(net)...)
	}
	return append(all, ofDefinitions(tx)...)
}

func ofDefinitions(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for _, def := range multinet.DefinitionsOnLinks(tx) {
		all = append(all, ofDefinition(def)...)
	}
	return all
}

// ofDefinition requests the link of a NetworkAttachmentDefinition.
func ofDefinition(def *multinet.Definition) []feed.Request {
	if def == nil || def.Link == (multinet.LinkID{}) {
		return nil
	}
	return request(def.Link)
}

// ofNamespace requests the links of the definitions of a namespace, when the namespace comes,
// goes, or changes its tenant.
func ofNamespace(tx store.ReadTx, old, now *store.Namespace) []feed.Request {
	if old != nil && now != nil && old.Tenant == now.Tenant {
		return nil
	}
	var all []feed.Request
	for _, def := range multinet.OldestOnLinks(tx, feed.Either(old, now).Name, 0) {
		all = append(all, ofDefinition(def)...)
	}
	return all
}

// ofNextDefinitions requests the links that a namespace may have after a definition is gone: it
// makes room for another one. A definition above the limit makes no room.
func ofNextDefinitions(tx store.ReadTx, gone *multinet.Definition, limit int) []feed.Request {
	if limit == 0 || gone.Link == (multinet.LinkID{}) || multinet.ExceedsLinks(tx, gone, limit) {
		return nil
	}
	var all []feed.Request
	for _, def := range multinet.OldestOnLinks(tx, gone.Namespace, limit) {
		all = append(all, ofDefinition(def)...)
	}
	return all
}

func request(id multinet.LinkID) []feed.Request {
	return []feed.Request{feed.Now("", v1alpha1.HostLinkName(id.Type, id.VNI, id.Device))}
}

// of requests the link of a network.
func of(net *multinet.Network) []feed.Request {
	if net == nil {
		return nil
	}
	id, ok := net.OnNodes()
	if !ok {
		return nil
	}
	return request(id)
}
