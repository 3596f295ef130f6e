// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/rollcall"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
	"github.com/alioth-net/alioth/store/rules/allocation"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// wakeAfter collects changes that may help waiting pods, so that each pod is checked a
// few times for many released addresses, not once per address.
const wakeAfter = 50 * time.Millisecond

// source requests a pod when it changes, and the waiting pods when an object changes that may have
// caused a refusal.
func (r *Reconciler) source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, r.initial,
		feed.On(func(tx store.ReadTx, old, now *store.Pod) []feed.Request {
			requests := []feed.Request{of(feed.Either(old, now))}
			if ending(now) && !ending(old) {
				requests = append(
					requests,
					r.wakeUnder(keysOfAddresses(tx, store.AddressesByPod(tx, old)...)...)...) // about to be released
			}
			return requests
		}),
		feed.On(r.ofAddress),
		feed.On(func(_ store.ReadTx, old, now *store.VPC) []feed.Request { return r.wakeIf(vpcHelps(old, now)) }),
		feed.On(func(_ store.ReadTx, old, now *store.Subnet) []feed.Request { return r.wakeIf(subnetHelps(old, now)) }),
		feed.On(func(_ store.ReadTx, old, _ *store.Node) []feed.Request { return r.wakeIf(old == nil) }),
		rollcall.OnSettled(r.Claimer.Settled, func(store.ReadTx) []feed.Request { return r.wake() }),
		feed.On(func(_ store.ReadTx, old, now *store.Network) []feed.Request {
			return r.wakeUnder(keyOfTenant(feed.Either(old, now).Tenant), keyOfTenant(feed.Either(now, old).Tenant))
		}),
		feed.On(func(_ store.ReadTx, _, _ *nodeipam.PodNetwork) []feed.Request { return r.wake() }),
		feed.On(r.ofInstance),
		feed.On(func(_ store.ReadTx, _, _ *nodeipam.NodeInfo) []feed.Request { return r.wake() }),
		feed.On(r.ofOutside),
		feed.On(func(tx store.ReadTx, old, now *multinet.Definition) []feed.Request {
			namespace := feed.Either(old, now).Namespace
			return r.wakeUnder(keyOfTenant(tenancy.OfNamespace(tx, namespace)), keyOfLender(namespace))
		}),
		feed.On(func(_ store.ReadTx, _, _ *multinet.Grant) []feed.Request { return r.wake() }),
		feed.On(func(_ store.ReadTx, old, now *multinet.Claim) []feed.Request {
			claim := feed.Either(old, now) // a living pod has the claims of its allocation status
			return []feed.Request{feed.Later(wakeAfter, claim.Namespace, claim.PodName)}
		}),
		feed.On(r.ofNamespace),
	).ByTurns()
}

// ofNamespace requests the pods of the tenants that a namespace comes to, or leaves.
func (r *Reconciler) ofNamespace(_ store.ReadTx, old, now *store.Namespace) []feed.Request {
	if old != nil && now != nil && old.Tenant == now.Tenant {
		return nil
	}
	// Until its namespace was known, a pod had no tenant.
	return r.wakeUnder(
		keyOfTenant(""),
		keyOfTenant(feed.Either(old, now).Tenant),
		keyOfTenant(feed.Either(now, old).Tenant),
		keyOfLender(feed.Either(old, now).Name),
	)
}

// ofInstance requests the pods of the tenant of a PodNetworkInstance, and the pods that its
// addresses help.
func (r *Reconciler) ofInstance(tx store.ReadTx, old, now *nodeipam.Instance) []feed.Request {
	keys := []string{keyOfTenant(tenancy.OfNamespace(tx, feed.Either(old, now).Namespace))}
	if old != nil {
		for _, reserved := range old.Reserved {
			keys = append(keys, keyOfDomain(reserved.VPC))
		}
	}
	return r.wakeUnder(keys...)
}

// ofOutside requests the pods that may name a network outside of every VPC: the pods of its
// namespace's tenant, or all pods for a ClusterNetwork. The figures of a network help no pod.
func (r *Reconciler) ofOutside(tx store.ReadTx, old, now *multinet.Network) []feed.Request {
	network := feed.Either(old, now)
	switch {
	case old != nil && now != nil &&
		old.UID == now.UID && old.Generation == now.Generation && old.Deleting == now.Deleting &&
		old.Ready == now.Ready && old.Unexamined == now.Unexamined &&
		old.Reason == now.Reason && old.Message == now.Message && old.NameConflict == now.NameConflict:
		return nil
	case network.Kind == multinet.KindClusterNetwork:
		return r.wake()
	}
	return r.wakeUnder(keyOfTenant(tenancy.OfNamespace(tx, network.Namespace)))
}

// ofAddress requests the pods that a free address may help. It also requests a pod that lost an
// address, got an address that this term did not create, or has an address with another
// configuration: a living pod keeps exactly the addresses of its allocation status.
func (r *Reconciler) ofAddress(tx store.ReadTx, old, now *store.Address) []feed.Request {
	var requests []feed.Request
	if now == nil {
		requests = r.wakeUnder(keysOfAddresses(tx, old)...)
	}
	holder := feed.Either(old, now).Holder
	if holder.Kind == store.HolderPod && (old == nil || now == nil || now.UID == "" || redescribed(old, now)) {
		requests = append(requests, feed.Later(wakeAfter, holder.Namespace, holder.Name))
	}
	return requests
}

// redescribed reports whether an address has got another description of its interface.
func redescribed(old, now *store.Address) bool {
	return !slices.Equal(old.Interfaces, now.Interfaces) ||
		(old.Config == nil) != (now.Config == nil) || old.Config != nil && *old.Config != *now.Config
}

// vpcHelps reports whether a change may help a waiting pod. A change of the VPC's
// figures alone does not.
func vpcHelps(old, now *store.VPC) bool {
	return old == nil || now == nil || old.Ready != now.Ready || old.Deleting != now.Deleting ||
		old.VNI != now.VNI || !slices.Equal(old.AllowedTenants, now.AllowedTenants)
}

func subnetHelps(old, now *store.Subnet) bool {
	return old == nil || now == nil || old.Ready != now.Ready || old.Deleting != now.Deleting ||
		old.Generation != now.Generation || old.Message != now.Message
}

func of(pod *store.Pod) feed.Request { return feed.Now(pod.Namespace, pod.Name) }

func ending(pod *store.Pod) bool { return pod == nil || pod.Deleting || pod.Terminal }

func (r *Reconciler) wakeIf(helps bool) []feed.Request {
	if !helps {
		return nil
	}
	return r.wake()
}

// keysOfAddresses returns the keys of pods that addresses help when they are released: an IP on a
// segment is free for all networks of it.
func keysOfAddresses(tx store.ReadTx, rows ...*store.Address) []string {
	var keys []string
	for _, row := range rows {
		keys = append(keys, keyOfDomain(row.Domain()))
		if net := multinet.ByDomain(tx, row.Domain()); net != nil && net.Segment() != "" {
			for peer := range multinet.Peers(tx, net.Segment()) {
				keys = append(keys, keyOfDomain(peer.Domain()))
			}
		}
	}
	return keys
}

// wake requests all waiting pods. It is for changes by administrators and nodes: tenants can make
// waiting pods without limit.
func (r *Reconciler) wake() []feed.Request { return soon(r.waiting.wake()) }

// wakeUnder requests the waiting pods that one of the keys is for.
func (r *Reconciler) wakeUnder(keys ...string) []feed.Request {
	if len(keys) == 0 {
		return nil
	}
	return soon(r.waiting.wake(keys...))
}

// soon requests pods that wait, a limited number of each tenant at a time: the cost for others does
// not grow with the number of a tenant's pods.
func soon(pods []woken) []feed.Request {
	var all []feed.Request
	for _, pod := range pods {
		all = append(all, feed.Later(feed.Turn(wakeAfter, pod.before), pod.Namespace, pod.Name))
	}
	return all
}

// initial requests the pods that need work. Pods may run with addresses that the API has lost.
// Before any address can be chosen, initial keeps these addresses from others.
func (r *Reconciler) initial(tx store.ReadTx) []feed.Request {
	requests, lost := r.undecided(tx)
	for _, pod := range lost {
		if err := r.holdUnconfirmed(pod); err != nil {
			ctrl.Log.WithName("pod").
				Error(err, "keep addresses of a pod from others", "namespace", pod.Namespace, "name", pod.Name)
		}
	}
	return requests
}

// undecided lists the pods that need work. Pods with an allocation status or a sandbox with
// addresses come first, so that after a restore from a backup they have their addresses before
// other pods can get them. lost has the pods in the list that have an allocation status.
func (r *Reconciler) undecided(tx store.ReadTx) (requests []feed.Request, lost []*store.Pod) {
	var served, others []feed.Request
	for pod := range store.AllPods(tx) {
		request := of(pod)
		switch {
		case allocation.HasStatus(pod):
			// Most pods of a restarted operator: requests for all would delay its work.
			if !decide(tx, pod, r.Sources).isNothing() {
				served, lost = append(served, request), append(lost, pod)
			}
		case len(pod.IPs) > 0:
			served = append(served, request)
		default:
			others = append(others, request)
		}
	}
	return append(served, others...), lost
}
