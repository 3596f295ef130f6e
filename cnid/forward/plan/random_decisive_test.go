// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/services"
)

// prepare makes one row decisive, and has the next step change that row alone. Random changes
// make such a state too rarely.
func (r *randomWorld) prepare(tx store.Tx) error {
	switch r.IntN(7) {
	case 0:
		r.then = r.leaveDefaultVPC
		return r.changeOwnAddress(tx)
	case 1:
		return r.prepareHostPod(tx)
	case 2:
		return r.prepareServiceRange(tx)
	case 3:
		return r.prepareNodePort(tx)
	case 4:
		return r.prepareRelay(tx)
	case 5:
		return r.disputeRange(tx)
	}
	return r.changeOwnAddress(tx)
}

func (r *randomWorld) changeNode(tx store.Tx, remove bool) error {
	name := r.of("node1", "node2", "node3")
	if remove {
		store.DeleteNode(tx, name, name)
		return nil
	}
	addrs := ips(r.of("192.0.2.1", "192.0.2.2", "2001:db8::3", "10.10.1.3"))
	return store.PutNode(tx, &store.Node{
		Meta: store.Meta{UID: name}, Name: name, Zone: r.of("", "a", "b"), Addresses: addrs, AllAddresses: addrs, Pods: uint32(r.IntN(2)),
	})
}

func (r *randomWorld) changeServiceRange(tx store.Tx, remove bool) error {
	if remove {
		store.DeleteServiceCIDR(tx, "more", "more")
		return nil
	}
	return store.PutServiceCIDR(tx, &store.ServiceCIDR{Meta: store.Meta{UID: "more"}, Name: "more", Prefixes: prefixes(r.of("10.97.0.0/16", "203.0.113.0/29"))})
}

// changeOwnAddress takes all addresses in the default VPC from a node, or gives it one.
func (r *randomWorld) changeOwnAddress(tx store.Tx) error {
	name := r.of("node1", "node2")
	own := store.OwnAddresses(tx, name, "default")
	if len(own) == 0 {
		return address("default", map[string]string{"node1": "10.244.7.1", "node2": "10.244.7.2"}[name], name, store.HolderNode, name)(tx)
	}
	return r.takeOwnAddresses(tx, name)
}

// takeOwnAddresses leaves a node without an interface in the default VPC.
func (r *randomWorld) takeOwnAddresses(tx store.Tx, node string) error {
	for _, row := range store.AddressesByNode(tx, node) {
		if row.Holder.Kind == store.HolderNode {
			store.DeleteAddress(tx, row.Name, row.UID)
		}
	}
	return nil
}

// leaveDefaultVPC takes the node's interface away, and then changes what the filter has of
// the default VPC.
func (r *randomWorld) leaveDefaultVPC(tx store.Tx) error {
	r.then = func(tx store.Tx) error {
		if home := store.GetVPC(tx, "default"); home != nil && r.IntN(2) == 0 {
			row := *home
			row.Prefixes = prefixes(r.of("10.10.0.0/16", "10.244.0.0/16", "192.0.2.0/24"))
			return store.PutVPC(tx, &row)
		}
		return slice("default", "kubernetes", "web", nil, ready(r.of("10.10.1.1", "10.244.1.1", "192.0.2.77")))(tx)
	}
	return r.takeOwnAddresses(tx, "node1")
}

// disputeRange has another node report an address in the default VPC, which has no interface
// of the node, and then changes whether a Subnet there is ready.
func (r *randomWorld) disputeRange(tx store.Tx) error {
	home, subnet := store.GetVPC(tx, "default"), store.GetSubnet(tx, "default")
	if home == nil || subnet == nil {
		return nil
	}
	r.then = func(tx store.Tx) error {
		row := *subnet
		row.Ready = !row.Ready
		return store.PutSubnet(tx, &row)
	}
	row := *home
	row.Prefixes = prefixes("10.244.0.0/16")
	return errors.Join(store.PutVPC(tx, &row), node("node3", "10.244.9.9")(tx), r.takeOwnAddresses(tx, "node1"))
}

// serviceHere finds a Service of a VPC that pods are attached to here, and may change it.
func (r *randomWorld) serviceHere(tx store.Tx, ofDefault bool) *store.Service {
	all := store.ListServices(tx)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, held := range all {
		vpc := services.VPCOf(tx, held, "default")
		here := slices.ContainsFunc(r.records, func(rec journal.Record) bool { return rec.InVPC() && rec.VPC == vpc })
		if here && len(held.ClusterIPs) > 0 && (vpc == "default" || !ofDefault) {
			row := *held
			return &row
		}
	}
	return nil
}

// prepareHostPod has a node port lead to this node's own address, and then has a pod of the
// node's network there, or none.
func (r *randomWorld) prepareHostPod(tx store.Tx) error {
	row := r.serviceHere(tx, true)
	if row == nil {
		return nil
	}
	r.then = func(tx store.Tx) error {
		held := store.GetHostPod(tx, "p1")
		return hostPod("p1", row.Namespace, "node1", held != nil && held.Namespace == row.Namespace && !held.Terminal)(tx)
	}
	row.Ports = []store.ServicePort{{Name: "p", Protocol: "TCP", Port: 443, NodePort: 30443}}
	endpoint := on("node1", "192.0.2.1")
	endpoint.PodUID = "p1"
	return errors.Join(store.PutService(tx, row), node("node1", "192.0.2.1")(tx), slice(row.Namespace, row.Name, row.Name, row.Ports, endpoint)(tx))
}

// prepareServiceRange has a Service without a selector lead outside of its VPC, and then
// has a range of Services there, or none.
func (r *randomWorld) prepareServiceRange(tx store.Tx) error {
	row := r.serviceHere(tx, false)
	if row == nil {
		return nil
	}
	r.then = func(tx store.Tx) error {
		if r.IntN(2) == 0 {
			store.DeleteServiceCIDR(tx, "more", "more")
			return nil
		}
		return store.PutServiceCIDR(tx, &store.ServiceCIDR{Meta: store.Meta{UID: "more"}, Name: "more", Prefixes: prefixes("198.51.100.9/32")})
	}
	vpc := *store.GetVPC(tx, services.VPCOf(tx, row, "default"))
	row.Selectorless, vpc.EgressMasquerade, vpc.EgressAllow = true, true, nil
	return errors.Join(store.PutService(tx, row), store.PutVPC(tx, &vpc), slice(row.Namespace, row.Name, row.Name, row.Ports, ready("198.51.100.9"))(tx))
}

// prepareNodePort takes from all Services what a pod here asks for as a port of the node, and
// then gives it to one.
func (r *randomWorld) prepareNodePort(tx store.Tx) error {
	for _, held := range store.ListServices(tx) {
		row := *held
		row.HealthCheckNodePort = 0
		if err := store.PutService(tx, &row); err != nil {
			return err
		}
		r.then = func(tx store.Tx) error {
			having := row
			having.HealthCheckNodePort = 30444
			return store.PutService(tx, &having)
		}
	}
	return nil
}

// prepareRelay has a node port lead to another node, which then has another address.
func (r *randomWorld) prepareRelay(tx store.Tx) error {
	row := r.serviceHere(tx, false)
	if row == nil {
		return nil
	}
	r.then = func(tx store.Tx) error { return node("node2", r.of("192.0.2.2", "192.0.2.3"))(tx) }
	vpc := store.GetVPC(tx, services.VPCOf(tx, row, "default"))
	row.Selectorless, row.ExternalNodeLocal = true, true
	row.Ports = []store.ServicePort{{Name: "p", Protocol: "TCP", Port: 443, NodePort: 30443}}
	inside := on("node2", vpc.Prefixes[0].Addr().Next().String())
	return errors.Join(
		store.PutService(tx, row),
		slice(row.Namespace, row.Name, row.Name, row.Ports, []store.Endpoint{inside, {Addresses: []netip.Addr{ip("10.10.1.2")}, Node: "node1"}}...)(tx),
	)
}
