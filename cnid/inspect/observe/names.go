// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe shows the work of the node's programs: dropped and forwarded packets,
// packet traces, the node's state, and counters. It changes nothing.
package observe

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// Names converts numbers of the datapath to names, as far as the node has them.
type Names struct {
	store   *store.Store
	records journal.Reader
}

// NewNames returns the names in the store, and in a node's records.
func NewNames(s *store.Store, records journal.Reader) Names {
	return Names{store: s, records: records}
}

// vpc names the VPC with a VNI; "" for one that is not here.
func (n Names) vpc(vni uint32) (name string) {
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

// network names the network outside of every VPC with a number.
func (n Names) network(number uint32) (name string) {
	name = fmt.Sprintf("number %d", number)
	n.store.View(func(tx store.ReadTx) {
		if row := multinet.GetDomainClaim(tx, number); row != nil {
			name = row.Network.String()
		}
	})
	return name
}

// device returns the attachment behind a device.
func (n Names) device(ifindex int) (journal.Record, bool) {
	records := n.records.Records()
	at := slices.IndexFunc(
		records,
		func(rec journal.Record) bool { return ifindex != 0 && rec.Device.HostIfindex == ifindex },
	)
	if at < 0 {
		return journal.Record{}, false
	}
	return records[at], true
}

// holder names the holder of an address of a VPC: a pod in the form namespace/name, a
// node, or a Service.
func (n Names) holder(vpc string, ip netip.Addr) (name string) {
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
func (n Names) node(ip netip.Addr) (name string) {
	n.store.View(func(tx store.ReadTx) {
		if row := store.NodeWithAddress(tx, ip); row != nil {
			name = row.Name
		}
	})
	return name
}

// service names the Service with a virtual address, in the form namespace/name.
func (n Names) service(vip netip.Addr) (name string) {
	n.store.View(func(tx store.ReadTx) {
		for _, row := range store.ListServices(tx) {
			if slices.Contains(row.ClusterIPs, vip) {
				name = row.Namespace + "/" + row.Name
				return
			}
		}
		for row := range scaled.All(tx) {
			if row.Head != nil && slices.Contains(row.Head.ClusterIPs, vip) {
				name = row.Namespace + "/" + row.Service
				return
			}
		}
	})
	return name
}
