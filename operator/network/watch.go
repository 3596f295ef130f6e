// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

// source requests a Network when it changes, and when one of these changes: a Network of the same
// name and tenant, its VPC, a subnet of its VPC, its namespace, or its users.
func source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, func(tx store.ReadTx) []feed.Request {
		return append(everything(tx), f.Leaving(vpcs.Network.Kind)...)
	},
		feed.OnLeaving(vpcs.Network.Kind),
		feed.On(func(tx store.ReadTx, old, now *store.Network) []feed.Request {
			requests := of(store.NetworkByTenantName(tx, feed.Either(old, now).Tenant, feed.Either(old, now).Name))
			return append(requests, feed.Now(feed.Either(old, now).Namespace, feed.Either(old, now).Name))
		}),
		feed.On(func(tx store.ReadTx, old, now *store.VPC) []feed.Request {
			return of(store.NetworksByVPC(tx, feed.Either(old, now).Name))
		}),
		feed.On(ofSubnet),
		feed.On(ofNamespace),
		feed.On(ofPod),
		feed.On(func(tx store.ReadTx, old, now *store.Service) []feed.Request {
			ns := store.GetNamespace(tx, feed.Either(old, now).Namespace)
			if ns == nil {
				return nil
			}
			return deleting(store.NetworksByTenant(tx, ns.Tenant))
		}),
	).ByTurns()
}

func everything(tx store.ReadTx) []feed.Request { return of(store.ListNetworks(tx)) }

// ofSubnet requests the Networks of a VPC when one of its subnets becomes Ready or
// stops being Ready. Changes of its counters, frequent while pods start, are skipped,
// because a Network examines every pod that names it.
func ofSubnet(tx store.ReadTx, old, now *store.Subnet) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID && serves(old) == serves(now) {
		return nil
	}
	return of(store.NetworksByVPC(tx, feed.Either(old, now).VPC))
}

func serves(subnet *store.Subnet) bool { return subnet.Ready && !subnet.Deleting }

// ofNamespace requests the Networks of a namespace's former and present tenant: names
// of Networks may have become unique there, or have ceased to be. Its level of Pod Security
// is in their conditions.
func ofNamespace(tx store.ReadTx, old, now *store.Namespace) []feed.Request {
	if old != nil && now != nil && old.Tenant == now.Tenant && old.Restricted == now.Restricted {
		return nil
	}
	var requests []feed.Request
	for _, ns := range []*store.Namespace{old, now} {
		if ns != nil {
			requests = append(requests, of(store.NetworksByTenant(tx, ns.Tenant))...)
		}
	}
	return requests
}

// ofPod requests the Networks that an ending pod may have used, or that report it as
// left behind.
func ofPod(tx store.ReadTx, old, now *store.Pod) []feed.Request {
	if now != nil && !now.Terminal {
		return nil
	}
	pod := feed.Either(old, now)
	var all []feed.Request
	for _, net := range store.NetworkByTenantName(tx, pod.Tenant, cmp.Or(pod.Network, arktosv1.DefaultNetwork)) {
		if net.Deleting || writtenElsewhere(pod, net) != nil {
			all = append(all, feed.Now(net.Namespace, net.Name))
		}
	}
	return all
}

func of(networks []*store.Network) []feed.Request {
	var all []feed.Request
	for _, net := range networks {
		all = append(all, feed.Now(net.Namespace, net.Name))
	}
	return all
}

// deleting requests the Networks that wait for the end of their users.
func deleting(networks []*store.Network) []feed.Request {
	var all []feed.Request
	for _, net := range networks {
		if net.Deleting {
			all = append(all, feed.Now(net.Namespace, net.Name))
		}
	}
	return all
}
