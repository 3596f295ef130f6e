// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"slices"
	"time"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/rollcall"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// lookAfter collects changes. So objects that are applied together, such as a Network
// after its Services, are examined once, and no event reports a problem that has
// already ended.
const lookAfter = time.Second

// source requests a Service when it changes, and when an object changes that its VPC depends on.
func (r *Reconciler) source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(ofService),
		feed.On(r.ofAddress),
		feed.On(r.ofExternalAddress),
		feed.On(func(_ store.ReadTx, old, now *store.EndpointSlice) []feed.Request {
			slice := feed.Either(old, now)
			return []feed.Request{feed.Later(lookAfter, slice.Namespace, slice.Service)}
		}),
		feed.On(func(_ store.ReadTx, old, now *store.SharedService) []feed.Request {
			shared := feed.Either(old, now)
			return []feed.Request{feed.Later(lookAfter, shared.ServiceNamespace, shared.ServiceName)}
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Network) []feed.Request {
			return ofTenant(tx, feed.Either(old, now).Tenant)
		}),
		feed.On(ofNamespace),
		feed.On(func(tx store.ReadTx, old, now *store.VPC) []feed.Request {
			if old != nil && now != nil && old.Ready == now.Ready && !respecified(&old.Meta, &now.Meta) {
				return nil
			}
			return r.ofVPC(tx, feed.Either(old, now).Name)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Subnet) []feed.Request {
			if old != nil && now != nil && old.Ready == now.Ready && !respecified(&old.Meta, &now.Meta) {
				return nil
			}
			return r.ofVPC(tx, feed.Either(old, now).VPC)
		}),
		feed.On(ofPool),
		feed.On(ofNode),
		feed.On(func(tx store.ReadTx, old, now *store.Node) []feed.Request {
			if old != nil && now != nil && slices.Equal(old.AllAddresses, now.AllAddresses) {
				return nil
			}
			return r.again(tx, anyTenant) // an endpoint may have become a node's
		}),
		rollcall.OnSettled(r.Claimer.Settled, balancers),
	).ByTurns()
}

// respecified reports whether the spec of an object changed.
func respecified(old, now *store.Meta) bool {
	return old.Generation != now.Generation || old.Deleting != now.Deleting
}

func ofNamespace(tx store.ReadTx, old, now *store.Namespace) []feed.Request {
	if old != nil && now != nil && old.Tenant == now.Tenant {
		return nil
	}
	requests := ofTenant(tx, feed.Either(old, now).Tenant)
	if old != nil { // whose Services may name its pods
		requests = append(requests, ofTenant(tx, old.Tenant)...)
	}
	return requests
}

func ofPool(tx store.ReadTx, old, now *external.Pool) []feed.Request {
	if old != nil && now != nil && old.Ready == now.Ready && !respecified(&old.Meta, &now.Meta) {
		return nil
	}
	return append(balancers(tx), of(store.ServicesWithExternalIPs(tx))...)
}

// ofNode requests the Services that nodes without a backend do not serve from outside,
// when the set of such nodes changes.
func ofNode(tx store.ReadTx, old, now *store.Node) []feed.Request {
	if (old != nil && old.MayAnnounce()) == (now != nil && now.MayAnnounce()) {
		return nil
	}
	return of(
		slices.DeleteFunc(
			append(externalHolders(tx), store.ServicesWithExternalIPs(tx)...),
			func(service *store.Service) bool {
				return service.ExternalNodeLocal || !service.ByBackendsHere()
			},
		),
	)
}

// ofService requests the Service, immediately if it waits for an address.
func ofService(_ store.ReadTx, old, now *store.Service) []feed.Request {
	service := feed.Either(old, now)
	requests := of([]*store.Service{service})
	if service.LoadBalancer != "" || old != nil && old.LoadBalancer != "" {
		requests = append(requests, feed.Now(service.Namespace, service.Name))
	}
	return requests
}

// ofAddress requests the refused Services that a free address, or one with a new holder, may
// concern, and the Service that has lost or got it.
func (r *Reconciler) ofAddress(tx store.ReadTx, old, now *store.Address) []feed.Request {
	if old != nil && now != nil { // the address still has a holder
		return nil
	}
	row := feed.Either(old, now)
	return append(r.again(tx, concerned(tx, row)), ofHolder(row.Holder)...)
}

// concerned returns the filter of tenants whose Services an address may concern: the tenants that
// its VPC allows, and all tenants for the address of a node.
func concerned(tx store.ReadTx, row *store.Address) func(tenant string) bool {
	vpc := store.GetVPC(tx, row.VPC)
	if vpc == nil || row.Holder.Kind == store.HolderNode {
		return anyTenant
	}
	return func(tenant string) bool { return tenancy.Allows(vpc, tenant) }
}

func (r *Reconciler) ofExternalAddress(tx store.ReadTx, old, now *external.Address) []feed.Request {
	if old != nil && now != nil { // another node announces it
		return nil
	}
	return append(r.again(tx, anyTenant), ofHolder(feed.Either(old, now).Holder)...)
}

func ofHolder(holder store.Holder) []feed.Request {
	if holder.Kind != store.HolderService {
		return nil
	}
	return []feed.Request{feed.Later(lookAfter, holder.Namespace, holder.Name)}
}

func everything(tx store.ReadTx) []feed.Request { return of(store.ListServices(tx)) }

// balancers requests the Services of type LoadBalancer.
func balancers(tx store.ReadTx) []feed.Request {
	return of(
		slices.DeleteFunc(store.ListServices(tx), func(service *store.Service) bool { return service.LoadBalancer == "" }),
	)
}

// externalHolders returns the Services that hold external addresses.
func externalHolders(tx store.ReadTx) []*store.Service {
	var list []*store.Service
	for _, address := range external.ListAddresses(tx) {
		if service := store.GetService(tx, address.Holder.Namespace, address.Holder.Name); service != nil {
			list = append(list, service)
		}
	}
	return list
}

// ofVPC requests the Services whose Network names a VPC, and the refused Services. Services in the
// default VPC need no Network.
func (r *Reconciler) ofVPC(tx store.ReadTx, vpc string) []feed.Request {
	if vpc == r.Rules.DefaultVPC {
		return everything(tx)
	}
	var all []feed.Request
	for _, tenant := range store.TenantsNamingVPC(tx, vpc) {
		all = append(all, ofTenant(tx, tenant)...)
	}
	return append(all, r.again(tx, anyTenant)...)
}

// wakeStep is the time between two turns of a tenant's Services.
const wakeStep = 50 * time.Millisecond

// again requests the Services with refusals of some tenants, by turns.
func (r *Reconciler) again(tx store.ReadTx, concerns func(tenant string) bool) []feed.Request {
	var all []feed.Request
	for _, namespace := range r.refused.Namespaces() {
		if !concerns(tenancy.OfNamespace(tx, namespace)) {
			continue
		}
		var requests []feed.Request
		for _, name := range r.refused.In(namespace) {
			requests = append(requests, feed.Later(lookAfter, namespace, name))
		}
		all = append(all, feed.Spread(wakeStep, requests)...)
	}
	return all
}

func anyTenant(string) bool { return true }

// ofTenant requests the Services of a tenant, by turns.
func ofTenant(tx store.ReadTx, tenant string) []feed.Request {
	var all []feed.Request
	for _, ns := range store.NamespacesByTenant(tx, tenant) {
		all = append(all, of(store.ServicesByNamespace(tx, ns.Name))...)
	}
	return feed.Spread(wakeStep, all)
}

func of(services []*store.Service) []feed.Request {
	var all []feed.Request
	for _, service := range services {
		all = append(all, feed.Later(lookAfter, service.Namespace, service.Name))
	}
	return all
}
