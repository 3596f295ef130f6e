// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package links decides about the VLAN and VXLAN links of a node: which of them it has to
// have, their names, and what has to change. It is pure. Package hostlink changes the
// kernel.
package links

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/multinet"
)

// Wanted is a link that the node has to have, if it has the parent.
type Wanted struct {
	multinet.LinkID
	// NetworkID gives the link its name, "" without one.
	NetworkID string
	// MTU is the largest that a network wants, in bytes; 0 for that of the parent.
	MTU int
}

// State is what links depend on beside the devices of the node.
type State struct {
	// Wanted are the links, by device, type and number, each once.
	Wanted []Wanted
	// Own are the addresses of the node that other nodes know, Peers those of the other
	// nodes, in order.
	Own, Peers []netip.Addr
}

// Equal reports whether two states demand the same.
func (s State) Equal(other State) bool {
	return slices.Equal(s.Wanted, other.Wanted) && slices.Equal(s.Own, other.Own) && slices.Equal(s.Peers, other.Peers)
}

// Of returns the link that a record's interface is on; false for one on the parent itself.
func Of(rec journal.Record) (multinet.LinkID, bool) {
	switch {
	case rec.VLAN != 0:
		return multinet.LinkID{Device: rec.Parent, Type: multinet.VLAN, VNI: rec.VLAN}, true
	case rec.VXLAN != 0:
		return multinet.LinkID{Device: rec.Parent, Type: multinet.VXLAN, VNI: rec.VXLAN}, true
	}
	return multinet.LinkID{}, false
}

// StateOf returns the state for a node. A link is wanted as long as a HostLink object
// demands it or an attachment of the journal uses it.
func StateOf(tx store.ReadTx, node string, records []journal.Record) State {
	var s State
	known := map[multinet.LinkID]bool{}
	for row := range multinet.HostLinks(tx) {
		known[row.LinkID] = true
		s.Wanted = append(s.Wanted, Wanted{LinkID: row.LinkID, NetworkID: row.NetworkID, MTU: row.MTU})
	}
	for _, rec := range records {
		if id, ok := Of(rec); ok && !known[id] {
			known[id] = true
			s.Wanted = append(s.Wanted, Wanted{LinkID: id})
		}
	}
	slices.SortFunc(s.Wanted, func(a, b Wanted) int { return compare(a.LinkID, b.LinkID) })
	for _, row := range store.ListNodes(tx) {
		if row.Name == node {
			s.Own = row.Addresses
		} else if !row.Deleting {
			s.Peers = append(s.Peers, row.Addresses...)
		}
	}
	slices.SortFunc(s.Peers, netip.Addr.Compare)
	s.Peers = slices.Compact(s.Peers)
	return s
}

func compare(a, b multinet.LinkID) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Type, b.Type), cmp.Compare(a.VNI, b.VNI))
}
