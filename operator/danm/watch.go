// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"slices"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/allocation"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// watch makes the requests of the controller of one kind.
type watch struct{ kind outside.Network }

// source requests a network when it or its addresses change, and when its numbers do. It also
// requests a network when a network of its name or segment changes, because that may have caused a
// conflict.
func source(f *feed.Feed, kind outside.Network) *feed.Source {
	w := watch{kind}
	return feed.NewSource(
		f,
		w.everything,
		feed.On(
			w.ofNetwork,
		),
		feed.On(w.ofAddress),
		feed.On(w.ofAttachment),
		feed.On(w.ofPod),
		feed.On(w.ofClaim),
		feed.On(w.ofReport),
		feed.On(w.ofPolicy),
		feed.On(w.ofNamespace),
		feed.On(w.ofGrant),
		feed.On(w.ofNode),
		feed.On(func(tx store.ReadTx, old, now *multinet.TenantConfig) []feed.Request {
			if old != nil && now != nil && old.Generation == now.Generation {
				return nil
			}
			return w.everything(tx) // profiles, and the numbers of administrators' networks
		}),
	).ByTurns()
}

// of requests the networks that are of the kind.
func (w watch) of(networks ...*multinet.Network) []feed.Request {
	var all []feed.Request
	for _, net := range networks {
		if net != nil && net.Kind == w.kind.Name && net.Group == w.kind.Group {
			all = append(all, feed.Now(net.Namespace, net.Name))
		}
	}
	return all
}

func (w watch) everything(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for net := range multinet.Networks(tx) {
		all = append(all, w.of(net)...)
	}
	return all
}

func (w watch) ofNetwork(tx store.ReadTx, old, now *multinet.Network) []feed.Request {
	if old != nil && now != nil && old.UID == now.UID && old.Generation == now.Generation &&
		old.Deleting == now.Deleting &&
		old.Profiled == now.Profiled &&
		old.SameWire(now) {
		return w.of(now)
	}
	var all []feed.Request
	for _, net := range []*multinet.Network{old, now} {
		if net == nil {
			continue
		}
		all = append(all, w.of(net)...)
		all = append(all, w.of(multinet.Namesakes(tx, net.Kind, net.Namespace, net.Name)...)...)
		all = append(all, w.onSegment(tx, net)...)
		all = append(all, w.lackingVNI(tx, net.Parent())...)
	}
	if now == nil || old != nil && old.UID != now.UID {
		all = append(all, w.nextOfTenant(tx, old.Namespace)...)
	}
	return all
}

// ofAddress requests the networks of an address's segment, whose figures change.
func (w watch) ofAddress(tx store.ReadTx, old, now *store.Address) []feed.Request {
	net := multinet.ByDomain(tx, feed.Either(old, now).Domain())
	if net == nil {
		return nil
	}
	return later(append(w.of(net), w.onSegment(tx, net)...))
}

// onSegment requests the networks of the segment of a network. The controllers of all kinds ask for
// them, so a sorted list would be expensive with many networks on one segment.
func (w watch) onSegment(tx store.ReadTx, net *multinet.Network) []feed.Request {
	var all []feed.Request
	for peer := range multinet.Peers(tx, net.Segment()) {
		all = append(all, w.of(peer)...)
	}
	return all
}

// later delays requests, so that many changes cause one write of the figures.
func later(requests []feed.Request) []feed.Request {
	for i := range requests {
		requests[i].After = countsEvery
	}
	return requests
}

// ofAttachment requests the network of a pod's AttachmentClaim, whose pods change: an
// attachment may have no address.
func (w watch) ofAttachment(tx store.ReadTx, old, now *multinet.Claim) []feed.Request {
	return later(w.of(multinet.ByDomain(tx, feed.Either(old, now).Network.Domain())))
}

// ofPod requests the networks of a pod that has ended: its claims may have gone before it.
func (w watch) ofPod(tx store.ReadTx, old, now *store.Pod) []feed.Request {
	if old == nil || now != nil && (!now.Terminal || old.Terminal) {
		return nil
	}
	var all []feed.Request
	for _, network := range allocation.Networks(old) {
		all = append(all, w.of(multinet.ByDomain(tx, network.Domain()))...)
	}
	return later(all)
}

// ofClaim requests the holder of a claim, administrators' networks with its number, and
// the networks that lack a number, which a released one may help.
func (w watch) ofClaim(tx store.ReadTx, old, now *multinet.HostVNIClaim) []feed.Request {
	claim := feed.Either(old, now)
	all := w.of(multinet.Get(tx, claim.Network))
	for _, net := range multinet.OnParent(tx, claim.Device) {
		if vniType, vni := net.VNI(); vniType == claim.Type && vni == claim.VNI {
			all = append(all, w.of(net)...)
		}
	}
	if now == nil {
		all = append(all, w.lackingVNI(tx, claim.Device)...)
	}
	return all
}

// lackingVNI requests the networks that wait for a number on a device, or that may take any
// device.
func (w watch) lackingVNI(tx store.ReadTx, device string) []feed.Request {
	if w.kind.Name != multinet.KindTenantNetwork {
		return nil
	}
	var all []feed.Request
	for _, net := range multinet.Refused(tx, v1alpha1.VNIExhaustedReason) {
		if net.Parent() == device || net.Parent() == "" {
			all = append(all, w.of(net)...)
		}
	}
	return all
}

// nextOfTenant requests the oldest network above the limits of the tenant of a namespace: the end
// of a network makes room for another.
func (w watch) nextOfTenant(tx store.ReadTx, namespace string) []feed.Request {
	var oldest *multinet.Network
	for _, name := range namespacesOf(tx, tenancy.OfNamespace(tx, namespace), namespace) {
		for net := range multinet.RefusedIn(tx, v1alpha1.TenantLimitReason, name) {
			if oldest == nil || net.Older(oldest) {
				oldest = net
			}
		}
	}
	return w.of(oldest)
}

// ofNamespace requests the networks of the tenants of a namespace whose tenant changes.
func (w watch) ofNamespace(tx store.ReadTx, old, now *store.Namespace) []feed.Request {
	if old != nil && now != nil && old.Tenant == now.Tenant {
		return nil
	}
	var all []feed.Request
	for _, row := range []*store.Namespace{old, now} {
		if row == nil {
			continue
		}
		for _, name := range namespacesOf(tx, row.Tenant, row.Name) {
			for _, kind := range []string{multinet.KindTenantNetwork, multinet.KindDanmNet} {
				all = append(all, w.of(slices.Collect(multinet.InNamespace(tx, kind, name))...)...)
			}
		}
	}
	return all
}
