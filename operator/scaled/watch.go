// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// collectFor collects the changes of a Service, which is written once for all of them.
const collectFor = 100 * time.Millisecond

// source requests a Service when its verdict, or anything that the verdict depends on, changes.
func (r *Reconciler) source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(ofService),
		feed.On(func(_ store.ReadTx, old, now *store.EndpointSlice) []feed.Request {
			requests := []feed.Request{request(feed.Either(old, now).Namespace, feed.Either(old, now).Service)}
			if old != nil && now != nil && old.Service != now.Service {
				requests = append(requests, request(old.Namespace, old.Service))
			}
			return requests
		}),
		feed.On(func(_ store.ReadTx, old, now *scaled.Endpoint) []feed.Request {
			return []feed.Request{request(feed.Either(old, now).Namespace, feed.Either(old, now).Service)}
		}),
		feed.On(func(_ store.ReadTx, old, now *store.SharedService) (requests []feed.Request) {
			for _, row := range present(old, now) {
				requests = append(requests, request(row.ServiceNamespace, row.ServiceName))
			}
			return requests
		}),
		feed.On(r.ofAddress),
		feed.On(r.ofExternalAddress),
		feed.On(func(tx store.ReadTx, _, _ *external.Pool) []feed.Request {
			return of(store.ServicesWithExternalIPs(tx))
		}),
		feed.On(r.ofVPC),
		feed.On(func(tx store.ReadTx, old, now *store.Network) (requests []feed.Request) {
			for _, row := range present(old, now) {
				requests = append(requests, ofTenant(tx, row.Tenant)...)
			}
			return requests
		}),
		feed.On(r.ofNamespace),
		feed.On(func(_ store.ReadTx, old, now *store.Node) []feed.Request {
			if old != nil && now != nil && slices.Equal(old.Addresses, now.Addresses) &&
				slices.Equal(old.AllAddresses, now.AllAddresses) {
				return nil
			}
			return r.wide()
		}),
		feed.On(func(store.ReadTx, *store.ServiceCIDR, *store.ServiceCIDR) []feed.Request { return r.wide() }),
		feed.On(ofNumber),
	).ByTurns()
}

// present returns the rows before and after a change, without missing ones.
func present[R any](old, now *R) []*R {
	return slices.DeleteFunc([]*R{old, now}, func(row *R) bool { return row == nil })
}

func request(namespace, name string) feed.Request { return feed.Later(collectFor, namespace, name) }

func of(list []*store.Service) (requests []feed.Request) {
	for _, row := range list {
		requests = append(requests, request(row.Namespace, row.Name))
	}
	return requests
}

// everything requests all Services, and also Services that are gone and have ScaledEndpoints still.
func everything(tx store.ReadTx) []feed.Request {
	requests := of(store.ListServices(tx))
	for row := range scaled.All(tx) {
		requests = append(requests, request(row.Namespace, row.Service))
	}
	return requests
}

// ofService requests a Service, and the Services that name the same external IPs, if these may
// belong to another tenant than before.
func ofService(tx store.ReadTx, old, now *store.Service) []feed.Request {
	row := feed.Either(old, now)
	requests := []feed.Request{request(row.Namespace, row.Name)}
	if old != nil && now != nil && old.UID == now.UID && old.Deleting == now.Deleting &&
		slices.Equal(old.ExternalIPs, now.ExternalIPs) {
		return requests
	}
	for _, one := range present(old, now) {
		for _, ip := range one.ExternalIPs {
			requests = append(requests, naming(tx, ip)...)
		}
	}
	return requests
}

// naming requests the Services that name an external IP.
func naming(tx store.ReadTx, ip netip.Addr) (requests []feed.Request) {
	for row := range store.ServicesNaming(tx, ip) {
		requests = append(requests, request(row.Namespace, row.Name))
	}
	return requests
}

// ofAddress requests the Services whose slices name an address, and the Service that holds the
// address.
func (r *Reconciler) ofAddress(_ store.ReadTx, old, now *store.Address) (requests []feed.Request) {
	for _, row := range present(old, now) {
		requests = append(requests, named(r.index.byAddress(row.IP))...)
		if row.Holder.Kind == store.HolderService {
			requests = append(requests, request(row.Holder.Namespace, row.Holder.Name))
		}
	}
	return requests
}

// ofExternalAddress requests the Services whose slices name the address, which no egress leads to,
// and the Services that name it as their own.
func (r *Reconciler) ofExternalAddress(tx store.ReadTx, old, now *external.Address) []feed.Request {
	if old != nil && now != nil && old.Holder == now.Holder && old.Deleting == now.Deleting {
		return nil // another node announces it
	}
	ip := feed.Either(old, now).IP
	return append(named(r.index.byAddress(ip)), naming(tx, ip)...)
}

func named(names []types.NamespacedName) (requests []feed.Request) {
	for _, name := range names {
		requests = append(requests, request(name.Namespace, name.Name))
	}
	return requests
}

func (r *Reconciler) wide() []feed.Request { return named(r.index.allWide()) }

// ofVPC requests the Services that are judged in a VPC, and those whose Network names it. The
// default VPC matters to Services of other VPCs by its ranges.
func (r *Reconciler) ofVPC(tx store.ReadTx, old, now *store.VPC) []feed.Request {
	if old != nil && now != nil && judgedAlike(old, now) {
		return nil
	}
	name := feed.Either(old, now).Name
	if name == r.Rules.DefaultVPC {
		return everything(tx)
	}
	var requests []feed.Request
	for row := range scaled.ByDomain(tx, name) {
		requests = append(requests, request(row.Namespace, row.Service))
	}
	for _, tenant := range store.TenantsNamingVPC(tx, name) {
		requests = append(requests, ofTenant(tx, tenant)...)
	}
	return requests
}

// judgedAlike reports whether no verdict changes with a VPC.
func judgedAlike(old, now *store.VPC) bool {
	return old.UID == now.UID && old.VNI == now.VNI &&
		slices.Equal(old.AllowedTenants, now.AllowedTenants) && slices.Equal(old.Prefixes, now.Prefixes) &&
		old.EgressMasquerade == now.EgressMasquerade && slices.Equal(old.EgressAllow, now.EgressAllow) &&
		slices.Equal(old.EgressDeny, now.EgressDeny)
}

// ofNamespace requests the Services of the tenants of a namespace: they may lead to its pods, or be
// in it. A Service that names external IPs has them by its tenant.
func (r *Reconciler) ofNamespace(tx store.ReadTx, old, now *store.Namespace) (requests []feed.Request) {
	if old != nil && now != nil && old.Tenant == now.Tenant {
		return nil
	}
	for _, row := range present(old, now) {
		requests = append(requests, of(store.ServicesByNamespace(tx, row.Name))...)
		requests = append(requests, ofTenant(tx, row.Tenant)...)
	}
	return append(requests, of(store.ServicesWithExternalIPs(tx))...)
}

// ofTenant requests the Services of a tenant.
func ofTenant(tx store.ReadTx, tenant string) (requests []feed.Request) {
	for _, ns := range store.NamespacesByTenant(tx, tenant) {
		requests = append(requests, of(store.ServicesByNamespace(tx, ns.Name))...)
	}
	return requests
}

// ofNumber requests the Services in a network outside of every VPC: the network that got a number
// decides which namespaces may have Services there.
func ofNumber(tx store.ReadTx, old, now *multinet.DomainClaim) (requests []feed.Request) {
	for _, claim := range present(old, now) {
		for _, slice := range store.EndpointSlicesByDomain(tx, claim.Network.Domain()) {
			requests = append(requests, request(slice.Namespace, slice.Service))
		}
	}
	return requests
}
