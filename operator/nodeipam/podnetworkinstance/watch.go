// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetworkinstance

import (
	"slices"
	"time"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/rollcall"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

// wakeAfter collects released addresses, so that an instance is examined once for many.
const wakeAfter = 50 * time.Millisecond

// source requests an instance when one of its name in any group changes, and when an object changes
// that decides about its reservations. It requests waiting instances when addresses become free.
func (r *Reconciler) source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(ofInstance), feed.On(ofPodNetwork), feed.On(ofVPC), feed.On(ofSubnet), feed.On(ofAddress), feed.On(ofPod),
		feed.On(func(tx store.ReadTx, old, now *store.Namespace) []feed.Request {
			if old != nil && now != nil && old.Tenant == now.Tenant {
				return nil
			}
			name := feed.Either(old, now).Name
			return those(tx, 0, func(row *nodeipam.Instance) bool { return row.Namespace == name })
		}),
		rollcall.OnSettled(r.Term.Settled, func(tx store.ReadTx) []feed.Request { return those(tx, 0, waits) }),
	).ByTurns()
}

// those requests the instances of any group that a condition holds for.
func those(tx store.ReadTx, after time.Duration, holds func(*nodeipam.Instance) bool) []feed.Request {
	var all []feed.Request
	for row := range nodeipam.Instances(tx) {
		if holds(row) {
			all = append(all, feed.Later(after, row.Namespace, row.Name))
		}
	}
	return all
}

func everything(tx store.ReadTx) []feed.Request {
	return those(tx, 0, func(*nodeipam.Instance) bool { return true })
}

// waits reports whether an instance waits for addresses, or for its end.
func waits(row *nodeipam.Instance) bool { return !row.Ready || row.Deleting }

// ofInstance also requests the instances that the addresses of this one may help.
func ofInstance(tx store.ReadTx, old, now *nodeipam.Instance) []feed.Request {
	row := feed.Either(old, now)
	all := []feed.Request{feed.Now(row.Namespace, row.Name)}
	if old != nil && (now == nil || count(now.Reserved) < count(old.Reserved)) {
		all = append(all, those(tx, wakeAfter, waits)...)
	}
	return all
}

func ofPodNetwork(tx store.ReadTx, old, now *nodeipam.PodNetwork) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID && old.Generation == now.Generation && old.Ready == now.Ready &&
		old.Deleting == now.Deleting {
		return nil
	}
	name := feed.Either(old, now).Name
	return those(tx, 0, func(row *nodeipam.Instance) bool {
		return slices.ContainsFunc(row.Interfaces, func(one nodeipam.Interface) bool { return one.PodNetwork == name })
	})
}

// ofVPC requests all instances if a VPC with PodNetworks allows other tenants.
func ofVPC(tx store.ReadTx, old, now *store.VPC) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID && slices.Equal(old.AllowedTenants, now.AllowedTenants) ||
		len(nodeipam.PodNetworksOfVPC(tx, feed.Either(old, now).Name)) == 0 {
		return nil
	}
	return everything(tx)
}

// ofSubnet requests all instances if the ranges of a subnet change that a PodNetwork may have.
func ofSubnet(tx store.ReadTx, old, now *store.Subnet) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID && old.Generation == now.Generation ||
		len(nodeipam.PodNetworksOfVPC(tx, feed.Either(old, now).VPC)) == 0 {
		return nil
	}
	return everything(tx)
}

// ofAddress requests the instances that have reserved an address, and the instances that a free
// address may help.
func ofAddress(tx store.ReadTx, old, now *store.Address) []feed.Request {
	if old != nil && now != nil {
		return nil
	}
	address := feed.Either(old, now)
	var all []feed.Request
	for _, row := range nodeipam.ReservedBy(tx, address.VPC, address.IP) {
		all = append(all, feed.Later(wakeAfter, row.Namespace, row.Name))
	}
	if now == nil && len(nodeipam.PodNetworksOfVPC(tx, address.VPC)) > 0 {
		all = append(all, those(tx, wakeAfter, waits)...)
	}
	return all
}

// ofPod requests the instance of a pod that is new, ends, or gets another label.
func ofPod(_ store.ReadTx, old, now *store.Pod) []feed.Request {
	var all []feed.Request
	for _, pod := range []*store.Pod{old, now} {
		if pod == nil {
			continue
		}
		if name, named := pod.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel]; named {
			all = append(all, feed.Later(wakeAfter, pod.Namespace, name))
		}
	}
	return all
}
