// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"slices"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	pods "github.com/alioth-net/alioth/operator/nodeipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

// source requests the config of a pod when the config, the pod or one of the pod's Addresses
// changes, and when the node or the instance changes that decides about it.
func source(f *feed.Feed, rows store.Central) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(func(_ store.ReadTx, old, now *nodeipam.PodConfig) []feed.Request {
			row := feed.Either(old, now)
			return []feed.Request{feed.Now(row.Namespace, row.Name)}
		}),
		feed.On(func(_ store.ReadTx, old, now *store.Pod) []feed.Request {
			return append(of(old), of(now)...)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Address) []feed.Request {
			if address := feed.Either(old, now); address.External {
				return of(store.GetPod(tx, address.Holder.UID))
			}
			return nil
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Node) []feed.Request {
			if old != nil && now != nil && old.NodeIPAM == now.NodeIPAM {
				return nil
			}
			return of(store.PodsByNode(tx, feed.Either(old, now).Name)...)
		}),
		feed.On(ofInstance),
		feed.On(func(tx store.ReadTx, old, now *store.Subnet) []feed.Request {
			if old == nil || now == nil || slices.Equal(old.Gateways, now.Gateways) && slices.Equal(old.Prefixes, now.Prefixes) {
				return nil
			}
			var all []feed.Request
			for _, address := range store.AddressesBySubnet(rows.Of(tx), now.Name) {
				all = append(all, of(store.GetPod(tx, address.Holder.UID))...)
			}
			return all
		}),
	).ByTurns()
}

// everything requests the configs that exist, and the configs of all pods.
func everything(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for row := range nodeipam.PodConfigs(tx) {
		all = append(all, feed.Now(row.Namespace, row.Name))
	}
	for pod := range store.AllPods(tx) {
		all = append(all, of(pod)...)
	}
	return all
}

// of requests the configs of pods, which may be nil, that ask for the network of a tenant.
func of(list ...*store.Pod) []feed.Request {
	var all []feed.Request
	for _, pod := range list {
		if pod != nil && pods.IsMultitenant(pod) {
			all = append(all, feed.Now(pod.Namespace, pod.Name))
		}
	}
	return all
}

// ofInstance requests the pods of an instance whose interfaces are others than before.
func ofInstance(tx store.ReadTx, old, now *nodeipam.Instance) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID {
		return nil // its spec does not change
	}
	row := feed.Either(old, now)
	return of(slices.DeleteFunc(store.PodsByNamespace(tx, row.Namespace), func(pod *store.Pod) bool {
		return pod.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel] != row.Name
	})...)
}
