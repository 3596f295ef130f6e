// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// isOnHost reports whether a backend is a pod on the network of its node, which is the node
// that asks. The pod itself must be known: slices and their references are written by
// tenants, and a forged one would open any port of the node. It is in the namespace of the
// Service, where alone a selector looks.
func isOnHost(tx store.ReadTx, namespace string, b *scaled.Backend) bool {
	if !isOfNode(tx, b.Node, b.IP) {
		return false
	}
	pod := store.GetHostPod(tx, b.PodUID)
	return pod != nil && pod.Node == b.Node && pod.Namespace == namespace && !pod.Terminal
}

// mayBeOnHost reports whether an endpoint may be a pod on the network of the node that it
// names. That node itself checks it.
func mayBeOnHost(tx store.ReadTx, at Site, endpoint *store.Endpoint, ip netip.Addr) bool {
	return at.VPC == at.DefaultVPC && endpoint.PodUID != "" && isOfNode(tx, endpoint.Node, ip)
}

// isOfNode reports whether pods on the network of a node may have an address.
func isOfNode(tx store.ReadTx, node string, ip netip.Addr) bool {
	row := store.GetNode(tx, node)
	return row != nil && slices.Contains(row.Addresses, ip)
}
