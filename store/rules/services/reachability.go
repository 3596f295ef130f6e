// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

// reachability decides which addresses without a holder in a VPC its Services may lead
// to: they are outside of the VPC, and its egress must allow them. It need not find all
// that egress is closed to, because the datapath decides about every packet. It leaves
// out those it finds, so that clients get another backend, or are refused at once.
type reachability struct {
	tx         store.ReadTx
	vpc        *store.VPC
	isDefault  bool
	defaultVPC *store.VPC
	// nodes are the nodes by their addresses, once one has been asked for.
	nodes map[netip.Addr]*store.Node
}

func reachabilityOf(tx store.ReadTx, at Site) *reachability {
	return &reachability{
		tx: tx, vpc: store.GetVPC(tx, at.VPC), isDefault: at.VPC == at.DefaultVPC,
		defaultVPC: store.GetVPC(tx, at.DefaultVPC),
	}
}

// reaches reports whether an endpoint of a Service may lead to an address that no pod in the VPC
// has. The slice must be written by hand: an address that a selector has found belongs to another
// VPC's pod, and has a different meaning outside. But nodes have one meaning everywhere, and pods
// on their network belong to the default VPC.
func (r *reachability) reaches(service *store.Service, endpoint *store.Endpoint, ip netip.Addr) bool {
	if r.vpc == nil || !r.vpc.EgressMasquerade || !ip.IsGlobalUnicast() || contains(r.vpc.Prefixes, ip) {
		return false
	}
	if !listed(r.vpc, ip) {
		return false
	}
	if r.isNodes(ip) {
		return r.isDefault && (byHand(service, endpoint) || r.isOnItsNode(endpoint, ip))
	}
	return byHand(service, endpoint) && !r.isOfCluster(ip)
}

// isOnItsNode reports whether an endpoint of a selector may be a pod on the network of its node:
// the node reports the address. A second node with the same address changes nothing, because the
// endpoint's kubelet alone reports it. A node has no other data about the pods of others. A pod
// of another VPC with a node's address can pass for a pod of the node. Its Service then leads
// clients only to an address that they reach themselves.
func (r *reachability) isOnItsNode(endpoint *store.Endpoint, ip netip.Addr) bool {
	node := store.GetNode(r.tx, endpoint.Node)
	return endpoint.PodUID != "" && node != nil && node.Reports(ip)
}

// listed reports whether the lists of a VPC's egress let an address through.
func listed(vpc *store.VPC, ip netip.Addr) bool {
	return !contains(vpc.EgressDeny, ip) && (len(vpc.EgressAllow) == 0 || contains(vpc.EgressAllow, ip))
}

// isNodes reports whether an address is one of a node.
func (r *reachability) isNodes(ip netip.Addr) bool {
	if r.nodes == nil {
		r.nodes = store.NodesByAddress(r.tx)
	}
	return r.nodes[ip] != nil
}

// isOfCluster reports whether an address is a Service's or, in another VPC than that, the
// default VPC's. Those that lead to nodes are theirs.
func (r *reachability) isOfCluster(ip netip.Addr) bool {
	if external.GetAddress(r.tx, ip) != nil || r.defaultVPC != nil && contains(r.defaultVPC.Prefixes, ip) {
		return true
	}
	return slices.ContainsFunc(
		store.ListServiceCIDRs(r.tx),
		func(row *store.ServiceCIDR) bool { return contains(row.Prefixes, ip) },
	)
}

func contains(ranges []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
}
