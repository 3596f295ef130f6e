// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store"
)

// ReservedAddresses are those that the node itself must reach under their real
// meaning: the API server's, by its endpoints and by configuration, and those
// of all nodes, under which pods on the host's network reach each other.
func ReservedAddresses(tx store.ReadTx, cfg Config) []netip.Addr {
	return unique(append(apiServerAddresses(tx, cfg), addressesOf(store.ListNodes(tx)...)...))
}

func apiServerAddresses(tx store.ReadTx, cfg Config) []netip.Addr {
	list := slices.Clone(cfg.Reserved)
	for _, slice := range store.EndpointSlicesByService(tx, cfg.APIServer.Namespace, cfg.APIServer.Name) {
		for _, endpoint := range slice.Endpoints {
			list = append(list, endpoint.Addresses...)
		}
	}
	return list
}

func addressesOf(nodes ...*store.Node) []netip.Addr {
	var list []netip.Addr
	for _, node := range nodes {
		list = append(append(list, node.Addresses...), node.AllAddresses...)
	}
	return list
}
