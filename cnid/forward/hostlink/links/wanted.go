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

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Wanted is a link that the node has to have, if it has the parent.
type Wanted struct {
	multinet.LinkID
	// NetworkID gives the link its name, "" without one.
	NetworkID string
	// MTU is the largest MTU that a network wants, in bytes. 0 stands for the parent's MTU.
	MTU int
}

// State holds the inputs of the links beside the devices of the node: wanted links, addresses of
// the nodes, and names of devices.
type State struct {
	// Wanted are the links, by device, type and number, each once.
	Wanted []Wanted
	// Own are the addresses of the node that other nodes know.
	Own []netip.Addr
	// Peers are the other nodes, by name.
	Peers []Peer
	// Direct are the devices on which pods of the node have interfaces themselves, by name.
	// These pods can send there with any address.
	Direct []string
	// Listed are the names of the devices that may have VXLANs without an address of Own: an
	// administrator promises that no pod can send there as a node. They do not change.
	Listed []string
}

// Peer holds the addresses of another node.
type Peer struct {
	// Addrs are the addresses of its Node object.
	Addrs []netip.Addr
	// At are the addresses that it reports for devices without one of these.
	At []multinet.DeviceAddrs
}

// Equal reports whether two states demand the same.
func (s State) Equal(other State) bool {
	return slices.Equal(s.Wanted, other.Wanted) && slices.Equal(s.Own, other.Own) &&
		slices.EqualFunc(s.Peers, other.Peers, Peer.equal) &&
		slices.Equal(s.Direct, other.Direct)
}

func (p Peer) equal(other Peer) bool {
	return slices.Equal(p.Addrs, other.Addrs) && slices.EqualFunc(p.At, other.At, multinet.DeviceAddrs.Equal)
}

// trusted returns the peers with those reported addresses that the node trusts: an
// administrator has listed the device, and no device of this node has the address.
func (s State) trusted(devices []Device) []Peer {
	held := func(ip netip.Addr) bool {
		return slices.ContainsFunc(devices, func(d Device) bool { return slices.Contains(d.Addrs, ip) })
	}
	all := slices.Clone(s.Peers)
	for i, peer := range all {
		all[i].At = nil
		for _, at := range peer.At {
			addrs := slices.DeleteFunc(slices.Clone(at.Addrs), held)
			if slices.Contains(s.Listed, at.Device) && len(addrs) > 0 {
				all[i].At = append(all[i].At, multinet.DeviceAddrs{Device: at.Device, Addrs: addrs})
			}
		}
	}
	return all
}

// senders returns all addresses of the other nodes, in order.
func (s State) senders() []netip.Addr {
	var all []netip.Addr
	for _, peer := range s.Peers {
		all = append(all, peer.Addrs...)
		for _, at := range peer.At {
			all = append(all, at.Addrs...)
		}
	}
	return inOrder(all)
}

// known returns the addresses at which the other nodes have the VXLANs of a device, in the
// family of the local address and in order. They come from a node's report about the device,
// or from its Node object if the node reports nothing about it.
func (s State) known(device string, family ipfamily.Family) []netip.Addr {
	var all []netip.Addr
	for _, peer := range s.Peers {
		addrs := peer.Addrs
		if at := slices.IndexFunc(peer.At, func(at multinet.DeviceAddrs) bool { return at.Device == device }); at >= 0 {
			addrs = peer.At[at].Addrs
		}
		all = append(all, addrs...)
	}
	return inOrder(slices.DeleteFunc(all, func(ip netip.Addr) bool { return !family.Has(ip) }))
}

func inOrder(ips []netip.Addr) []netip.Addr {
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Compact(ips)
}

// Of returns the link that a record's interface is on; false for one on the parent itself.
func Of(rec journal.Record) (multinet.LinkID, bool) {
	return multinet.LinkBelow(rec.Config)
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
		id, ok := Of(rec)
		if ok && !known[id] {
			known[id] = true
			s.Wanted = append(s.Wanted, Wanted{LinkID: id})
		}
		if !ok && rec.Parent != "" {
			s.Direct = append(s.Direct, rec.Parent)
		}
	}
	slices.Sort(s.Direct)
	s.Direct = slices.Compact(s.Direct)
	slices.SortFunc(s.Wanted, func(a, b Wanted) int { return compare(a.LinkID, b.LinkID) })
	s.addNodes(tx, node)
	return s
}

// addNodes adds the addresses of all nodes.
func (s *State) addNodes(tx store.ReadTx, node string) {
	nodes := store.ListNodes(tx)
	holders := map[netip.Addr]string{}
	for _, row := range nodes {
		for _, ip := range row.Addresses {
			holders[ip] = row.Name
		}
	}
	for _, row := range nodes {
		if row.Name == node {
			s.Own = row.Addresses
		} else if !row.Deleting {
			s.Peers = append(s.Peers, Peer{Addrs: row.Addresses, At: reported(tx, row.Name, holders)})
		}
	}
}

// reported returns the addresses in a node's report. It leaves out addresses of other nodes:
// a report speaks for its own node alone.
func reported(tx store.ReadTx, node string, holders map[netip.Addr]string) []multinet.DeviceAddrs {
	report := multinet.GetLinkReport(tx, node)
	if report == nil {
		return nil
	}
	var all []multinet.DeviceAddrs
	for _, at := range report.Addresses {
		addrs := slices.DeleteFunc(slices.Clone(at.Addrs), func(ip netip.Addr) bool {
			holder, held := holders[ip]
			return held && holder != node
		})
		if len(addrs) > 0 {
			all = append(all, multinet.DeviceAddrs{Device: at.Device, Addrs: addrs})
		}
	}
	return all
}

func compare(a, b multinet.LinkID) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Type, b.Type), cmp.Compare(a.VNI, b.VNI))
}
