// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/multinet"
)

// source requests a Service when it or its slices change, and when an object changes on
// which its endpoints depend. A pod and what belongs to it concern only the Services
// whose selector the pod fits, or has fitted: the store has an index of them.
func (r *Reconciler) source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(ofService), feed.On(r.ofSlice),
		feed.On(ofPod), feed.On(ofAddress), feed.On(ofClaim), feed.On(ofNode),
		feed.On(ofOutside), feed.On(ofDefinition), feed.On(ofNetwork), feed.On(ofVPC), feed.On(ofNamespace),
	).ByTurns()
}

// everything requests the Services that select endpoints, and those that have slices of an
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

func ofService(_ store.ReadTx, old, now *store.Service) []feed.Request {
	if (old == nil || old.Endpoints == nil) && (now == nil || now.Endpoints == nil) {
		return nil
	}
	return []feed.Request{of(feed.Either(old, now))}
}

// ofSlice requests the Services of a slice of the operator. The tracker must not wait for a
// slice that is gone, or that someone has taken from its Service.
func (r *Reconciler) ofSlice(_ store.ReadTx, old, now *store.EndpointSlice) []feed.Request {
	var all []feed.Request
	if old != nil && old.Managed {
		if now == nil || !now.Managed || now.Service != old.Service || now.UID != old.UID {
			r.tracker.HandleDeletion(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
				Namespace: old.Namespace, Name: old.Name, UID: types.UID(old.UID), Labels: map[string]string{discoveryv1.LabelServiceName: old.Service},
			}})
		}
		all = append(all, feed.Now(old.Namespace, old.Service))
	}
	if now != nil && now.Managed {
		all = append(all, feed.Now(now.Namespace, now.Service))
	}
	return all
}

func ofPod(tx store.ReadTx, old, now *store.Pod) []feed.Request {
	all := selecting(tx, now)
	if old != nil && (now == nil || !sameLabels(old, now)) {
		all = append(all, selecting(tx, old)...)
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

// selecting requests the Services that select a pod; none for nil.
func selecting(tx store.ReadTx, pod *store.Pod) []feed.Request {
	if pod == nil {
		return nil
	}
	var all []feed.Request
	for service := range store.ServicesSelecting(tx, pod.Namespace, pod.Labels) {
		all = append(all, of(service))
	}
	return all
}

func ofAddress(tx store.ReadTx, old, now *store.Address) []feed.Request {
	return selecting(tx, store.GetPod(tx, feed.Either(old, now).Holder.UID))
}

func ofClaim(tx store.ReadTx, old, now *multinet.Claim) []feed.Request {
	return selecting(tx, store.GetPod(tx, feed.Either(old, now).PodUID))
}

// ofNode requests the Services of the pods of a node that is new or in another zone.
func ofNode(tx store.ReadTx, old, now *store.Node) []feed.Request {
	if now == nil || old != nil && old.Zone == now.Zone {
		return nil
	}
	var all []feed.Request
	for _, pod := range store.PodsByNode(tx, now.Name) {
		all = append(all, selecting(tx, pod)...)
	}
	return all
}

// naming requests the Services for which a network is of concern.
func naming(tx store.ReadTx, concerns func(*store.Service) bool) []feed.Request {
	var all []feed.Request
	for service := range store.ServicesWithEndpointSelection(tx) {
		if concerns(service) {
			all = append(all, of(service))
		}
	}
	return all
}

func every(*store.Service) bool { return true }

// ofOutside requests the Services that name a network of DANM, or perhaps a definition that
// stands for it, when a change decides who may use it. Its status changes with each pod.
func ofOutside(tx store.ReadTx, old, now *multinet.Network) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID && old.Generation == now.Generation && old.Deleting == now.Deleting {
		return nil
	}
	net := feed.Either(old, now)
	return naming(tx, func(service *store.Service) bool {
		return (net.Namespace == "" || net.Namespace == service.Namespace) && names(service, net.Kind, net.Name)
	})
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

func ofDefinition(tx store.ReadTx, old, now *multinet.Definition) []feed.Request {
	def := feed.Either(old, now)
	return naming(tx, func(service *store.Service) bool {
		for _, one := range service.Endpoints.Networks {
			if one.Kind == multinet.KindDefinition && one.Name == def.Name {
				return true
			}
		}
		return false
	})
}

// ofNetwork requests the Services of a tenant whose Network leads to another VPC.
func ofNetwork(tx store.ReadTx, old, now *store.Network) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID && old.VPC == now.VPC && old.Type == now.Type && old.Tenant == now.Tenant {
		return nil
	}
	tenants := map[string]bool{}
	for _, net := range []*store.Network{old, now} {
		if net != nil {
			tenants[net.Tenant] = true
		}
	}
	return naming(tx, func(service *store.Service) bool {
		ns := store.GetNamespace(tx, service.Namespace)
		return ns != nil && tenants[ns.Tenant]
	})
}

// ofVPC requests all Services when a VPC begins or ends to admit tenants.
func ofVPC(tx store.ReadTx, old, now *store.VPC) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID && old.Generation == now.Generation {
		return nil
	}
	return naming(tx, every)
}

func ofNamespace(tx store.ReadTx, old, now *store.Namespace) []feed.Request {
	if old != nil && now != nil && old.Tenant == now.Tenant {
		return nil
	}
	name := feed.Either(old, now).Name
	return naming(tx, func(service *store.Service) bool { return service.Namespace == name })
}
