// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// source requests a Service when it or its slices change, and when an object changes that its
// endpoints depend on. A change of a pod, or of an object of the pod, requests only the Services
// whose selector the pod fits, or has fitted: the store has an index of them.
func (r *Reconciler) source(f *feed.Feed) *feed.Source {
	return feed.NewSource(
		f,
		everything,
		feed.On(r.ofService),
		feed.On(r.ofSlice),
		feed.On(r.ofPod),
		feed.On(r.ofAddress),
		feed.On(r.ofClaim),
		feed.On(r.ofNode),
		feed.On(
			r.ofOutside,
		),
		feed.On(r.ofDefinition),
		feed.On(r.ofGrant),
		feed.On(r.ofNetwork),
		feed.On(r.ofVPC),
		feed.On(r.ofNamespace),
	).ByTurns()
}

// everything requests the Services that select endpoints, and the Services that have slices of an
// earlier time when they did.
func everything(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for _, service := range store.ListServices(tx) {
		if service.Endpoints != nil {
			all = append(all, of(service))
		}
	}
	for _, slice := range store.ManagedEndpointSlices(tx) {
		all = append(all, feed.Now(slice.Namespace, slice.Service))
	}
	return all
}

func of(service *store.Service) feed.Request { return feed.Now(service.Namespace, service.Name) }

// ofService requests a Service with annotations, and the Services of its tenant that fall below or
// rise above the limit with it.
func (r *Reconciler) ofService(tx store.ReadTx, old, now *store.Service) []feed.Request {
	if (old == nil || old.Endpoints == nil) && (now == nil || now.Endpoints == nil) {
		return nil
	}
	row := feed.Either(old, now)
	all := []feed.Request{of(row)}
	if (old != nil && old.SelectsEndpoints()) != (now != nil && now.SelectsEndpoints()) {
		for _, other := range r.Rules.ofTenant(tx, tenancy.OfNamespace(tx, row.Namespace)).last() {
			all = append(all, of(other))
		}
	}
	return all
}

// ofSlice requests the Services of a slice of the operator. The tracker must not wait for a slice
// that is gone, or that another writer has taken from its Service.
func (r *Reconciler) ofSlice(_ store.ReadTx, old, now *store.EndpointSlice) []feed.Request {
	var all []feed.Request
	if old != nil && old.Managed {
		if now == nil || !now.Managed || now.Service != old.Service || now.UID != old.UID {
			r.tracker.HandleDeletion(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
				Namespace: old.Namespace, Name: old.Name, UID: types.UID(old.UID),
				Labels: map[string]string{discoveryv1.LabelServiceName: old.Service},
			}})
		}
		all = append(all, feed.Now(old.Namespace, old.Service))
	}
	if now != nil && now.Managed {
		all = append(all, feed.Now(now.Namespace, now.Service))
	}
	return all
}

func (r *Reconciler) ofPod(tx store.ReadTx, old, now *store.Pod) []feed.Request {
	all := r.selecting(tx, now)
	if old != nil && (now == nil || !sameLabels(old, now)) {
		all = append(all, r.selecting(tx, old)...)
	}
	return all
}

func sameLabels(a, b *store.Pod) bool {
	if len(a.Labels) != len(b.Labels) {
		return false
	}
	for key, value := range a.Labels {
		if other, set := b.Labels[key]; !set || other != value {
			return false
		}
	}
	return true
}

// selecting requests the Services that select a pod; none for nil. It leaves out Services above the
// limit of the tenant: these have no endpoints, whatever becomes of the pod.
func (r *Reconciler) selecting(tx store.ReadTx, pod *store.Pod) []feed.Request {
	if pod == nil {
		return nil
	}
	var all []feed.Request
	var within *limited
	for service := range store.ServicesSelecting(tx, pod.Namespace, pod.Labels) {
		if within == nil {
			l := r.Rules.ofTenant(tx, pod.Tenant)
			within = &l
		}
		if within.has(service) {
			all = append(all, of(service))
		}
	}
	return all
}

func (r *Reconciler) ofAddress(tx store.ReadTx, old, now *store.Address) []feed.Request {
	return r.selecting(tx, store.GetPod(tx, feed.Either(old, now).Holder.UID))
}

func (r *Reconciler) ofClaim(tx store.ReadTx, old, now *multinet.Claim) []feed.Request {
	return r.selecting(tx, store.GetPod(tx, feed.Either(old, now).PodUID))
}

// ofNode requests the Services of the pods of a node that is new or in another zone.
func (r *Reconciler) ofNode(tx store.ReadTx, old, now *store.Node) []feed.Request {
	if now == nil || old != nil && old.Zone == now.Zone {
		return nil
	}
	var all []feed.Request
	for _, pod := range store.PodsByNode(tx, now.Name) {
		all = append(all, r.selecting(tx, pod)...)
	}
	return all
}

// wakeAfter collects changes that concern many Services of a tenant, and is the step of their
// turns.
const wakeAfter = 50 * time.Millisecond

// naming requests, by turns, the Services of a namespace that a network concerns. It leaves out
// Services that are above the limit for certain.
func (r *Reconciler) naming(tx store.ReadTx, namespace string, concerns func(*store.Service) bool) []feed.Request {
	var all []feed.Request
	count := 0
	for service := range store.SelectingServices(tx, namespace) {
		if concerns(service) {
			all = append(all, of(service))
		}
		if count++; r.Rules.Services > 0 && count >= r.Rules.Services {
			break
		}
	}
	return feed.Spread(wakeAfter, all)
}

// ofTenants does the work of naming for all namespaces of some tenants.
func (r *Reconciler) ofTenants(tx store.ReadTx, concerns func(*store.Service) bool, tenants ...string) []feed.Request {
	var all []feed.Request
	for i, tenant := range tenants {
		if slices.Contains(tenants[:i], tenant) {
			continue
		}
		for _, ns := range store.NamespacesByTenant(tx, tenant) {
			all = append(all, r.naming(tx, ns.Name, concerns)...)
		}
	}
	return all
}

// everywhere does the work of naming for all namespaces. It is for changes that administrators
// make.
func (r *Reconciler) everywhere(tx store.ReadTx, concerns func(*store.Service) bool) []feed.Request {
	var all []feed.Request
	for _, ns := range store.ListNamespaces(tx) {
		all = append(all, r.naming(tx, ns.Name, concerns)...)
	}
	return all
}

func every(*store.Service) bool { return true }

// ofOutside requests the Services that name a network of DANM, or perhaps a definition that names
// it, when a change decides who may use the network. The network's status changes with each pod,
// and requests nothing.
func (r *Reconciler) ofOutside(tx store.ReadTx, old, now *multinet.Network) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID && old.Generation == now.Generation && old.Deleting == now.Deleting {
		return nil
	}
	net := feed.Either(old, now)
	concerns := func(service *store.Service) bool { return names(service, net.Kind, net.Name) }
	if net.Namespace == "" {
		return r.everywhere(tx, concerns)
	}
	return r.naming(tx, net.Namespace, concerns)
}

// names reports whether a Service names a network of a kind, or any definition.
func names(service *store.Service, kind, name string) bool {
	for _, one := range service.Endpoints.Networks {
		if one.Kind == kind && one.Name == name || one.Kind == multinet.KindDefinition {
			return true
		}
	}
	return false
}

// ofDefinition requests the Services of the tenant of a definition that may name it.
func (r *Reconciler) ofDefinition(tx store.ReadTx, old, now *multinet.Definition) []feed.Request {
	def := feed.Either(old, now)
	naming := func(service *store.Service) bool {
		for _, one := range service.Endpoints.Networks {
			if one.Kind == multinet.KindDefinition && one.Name == def.Name {
				return true
			}
		}
		return false
	}
	if slices.Contains(r.Rules.Sharing.Global, def.Namespace) {
		return r.everywhere(tx, naming)
	}
	all := r.ofTenants(tx, naming, tenancy.OfNamespace(tx, def.Namespace))
	for _, namespace := range borrowers(tx, def.Namespace) {
		all = append(all, r.naming(tx, namespace, naming)...)
	}
	return all
}

// borrowers returns the namespaces that grants lend the definitions of a namespace to.
func borrowers(tx store.ReadTx, namespace string) (all []string) {
	for grant := range multinet.AllGrants(tx) {
		if slices.Contains(grant.FromNamespaces, namespace) {
			all = append(all, grant.Namespaces...)
		}
	}
	return all
}

// ofGrant requests the Services of a namespace when a grant begins or ends to lend definitions to
// it.
func (r *Reconciler) ofGrant(tx store.ReadTx, old, now *multinet.Grant) []feed.Request {
	var all []feed.Request
	for _, grant := range []*multinet.Grant{old, now} {
		if grant == nil || len(grant.FromNamespaces) == 0 {
			continue
		}
		for _, namespace := range grant.Namespaces {
			all = append(all, r.naming(tx, namespace, every)...)
		}
	}
	return all
}

// ofNetwork requests the Services of a tenant whose Network leads to another VPC.
func (r *Reconciler) ofNetwork(tx store.ReadTx, old, now *store.Network) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID && old.VPC == now.VPC && old.Type == now.Type &&
		old.Tenant == now.Tenant {
		return nil
	}
	return r.ofTenants(tx, every, feed.Either(old, now).Tenant, feed.Either(now, old).Tenant)
}

// ofVPC requests all Services when a VPC begins or ends to admit tenants.
func (r *Reconciler) ofVPC(tx store.ReadTx, old, now *store.VPC) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID && old.Generation == now.Generation {
		return nil
	}
	return r.everywhere(tx, every)
}

// ofNamespace requests the Services of the tenants that a namespace joins or leaves: other Services
// may cross the limit then.
func (r *Reconciler) ofNamespace(tx store.ReadTx, old, now *store.Namespace) []feed.Request {
	if old != nil && now != nil && old.Tenant == now.Tenant {
		return nil
	}
	all := r.naming(tx, feed.Either(old, now).Name, every)
	return append(all, r.ofTenants(tx, every, feed.Either(old, now).Tenant, feed.Either(now, old).Tenant)...)
}
