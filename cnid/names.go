// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
)

// names says what the numbers of the datapath stand for, as far as the node
// knows.
type names struct {
	store   *store.Store
	journal *journal.Journal
}

// vpc names the VPC with a VNI; "" for one that is not here.
func (n names) vpc(vni uint32) (name string) {
	if vni == 0 {
		return ""
	}
	n.store.View(func(tx store.ReadTx) {
		if row := store.VPCByVNI(tx, vni); row != nil {
			name = row.Name
		}
	})
	return name
}

// device returns the attachment behind a device.
func (n names) device(ifindex int) (journal.Record, bool) {
	records := n.journal.Records()
	at := slices.IndexFunc(records, func(rec journal.Record) bool { return ifindex != 0 && rec.Device.HostIfindex == ifindex })
	if at < 0 {
		return journal.Record{}, false
	}
	return records[at], true
}

// holder names who has an address of a VPC: a pod in the form namespace/name, a
// node, or a Service.
func (n names) holder(vpc string, ip netip.Addr) (name string) {
	n.store.View(func(tx store.ReadTx) {
		row := store.AddressByIP(tx, vpc, ip)
		switch {
		case row == nil:
		case row.Holder.Kind == store.HolderNode:
			name = "node " + row.Holder.Name
		case row.Holder.Kind == store.HolderService:
			name = "service " + row.Holder.Namespace + "/" + row.Holder.Name
		default:
			name = row.Holder.Namespace + "/" + row.Holder.Name
		}
	})
	return name
}

// node names the node with an address in the underlay.
func (n names) node(ip netip.Addr) (name string) {
	n.store.View(func(tx store.ReadTx) {
		for _, row := range store.ListNodes(tx) {
			if slices.Contains(row.Addresses, ip) || slices.Contains(row.AllAddresses, ip) {
				name = row.Name
				return
			}
		}
	})
	return name
}

// service names the Service with a virtual address, in the form namespace/name.
func (n names) service(vip netip.Addr) (name string) {
	n.store.View(func(tx store.ReadTx) {
		for _, row := range store.ListServices(tx) {
			if slices.Contains(row.ClusterIPs, vip) {
				name = row.Namespace + "/" + row.Name
				return
			}
		}
	})
	return name
}
