// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"time"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
)

// lookAfter gathers changes, so that what comes in one go, a Network behind its
// Services, is looked at once and nobody is warned of what is over already.
const lookAfter = time.Second

// source asks for a Service when it changes, and when something does on which its
// VPC depends.
func (r *Reconciler) source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(func(_ store.ReadTx, old, now *store.Service) []feed.Request {
			return of([]*store.Service{feed.Either(old, now)})
		}),
		feed.On(func(_ store.ReadTx, old, now *store.EndpointSlice) []feed.Request {
			slice := feed.Either(old, now)
			return []feed.Request{feed.Later(lookAfter, slice.Namespace, slice.Service)}
		}),
		feed.On(func(_ store.ReadTx, old, now *store.Address) []feed.Request {
			if old != nil && now != nil { // still somebody's
				return nil
			}
			return r.again()
		}),
		feed.On(func(_ store.ReadTx, old, now *store.SharedService) []feed.Request {
			shared := feed.Either(old, now)
			return []feed.Request{feed.Later(lookAfter, shared.ServiceNamespace, shared.ServiceName)}
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Network) []feed.Request {
			return ofTenant(tx, feed.Either(old, now).Tenant)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Namespace) []feed.Request {
			if old != nil && now != nil && old.Tenant == now.Tenant {
				return nil
			}
			return ofTenant(tx, feed.Either(old, now).Tenant)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.VPC) []feed.Request {
			if old != nil && now != nil && old.Ready == now.Ready && old.Deleting == now.Deleting && old.Generation == now.Generation {
				return nil
			}
			return r.ofVPC(tx, feed.Either(old, now).Name)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Subnet) []feed.Request {
			if old != nil && now != nil && old.Ready == now.Ready && old.Deleting == now.Deleting {
				return nil
			}
			return r.ofVPC(tx, feed.Either(old, now).VPC)
		}),
	)
}

func everything(tx store.ReadTx) []feed.Request { return of(store.ListServices(tx)) }

// ofVPC asks for the Services whose Network names a VPC, and for those that have
// been refused.
func (r *Reconciler) ofVPC(tx store.ReadTx, vpc string) []feed.Request {
	var all []feed.Request
	for _, net := range store.NetworksByVPC(tx, vpc) {
		all = append(all, ofTenant(tx, net.Tenant)...)
	}
	return append(all, r.again()...)
}

// again asks for those of which there was something to say.
func (r *Reconciler) again() []feed.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []feed.Request
	for name := range r.refused {
		all = append(all, feed.Later(lookAfter, name.Namespace, name.Name))
	}
	return all
}

// ofTenant asks for the Services of a tenant.
func ofTenant(tx store.ReadTx, tenant string) []feed.Request {
	var all []feed.Request
	for _, ns := range store.NamespacesByTenant(tx, tenant) {
		all = append(all, of(store.ServicesByNamespace(tx, ns.Name))...)
	}
	return all
}

func of(services []*store.Service) []feed.Request {
	var all []feed.Request
	for _, service := range services {
		all = append(all, feed.Later(lookAfter, service.Namespace, service.Name))
	}
	return all
}
