// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// Outside returns the domains of networks outside of every VPC where a Service has its
// ClusterIPs, sorted. The Service's slices name these networks. A backend is a pod of the
// Service's namespace that the operator has attached to the network, as Backends finds by the
// pod's Address there. So pods in the network reach nothing that they could not reach without the
// Service.
func Outside(tx store.ReadTx, service *store.Service) []string {
	var domains []string
	for _, slice := range store.EndpointSlicesByService(tx, service.Namespace, service.Name) {
		if len(service.ClusterIPs) > 0 && store.IsNetworkDomain(slice.Domain) && mayName(tx, slice) {
			domains = append(domains, slice.Domain)
		}
	}
	slices.Sort(domains)
	return slices.Compact(domains)
}

// InNetwork reports whether there are Services in a network outside of every VPC. A node may
// know them by their ScaledEndpoints.
func InNetwork(tx store.ReadTx, network store.NetworkRef) bool {
	if isJudgedIn(tx, network.Domain()) {
		return true
	}
	return slices.ContainsFunc(store.EndpointSlicesByDomain(tx, network.Domain()), func(slice *store.EndpointSlice) bool {
		return serves(network, slice.Namespace)
	})
}

// InDomain reports whether slices or ScaledEndpoints have the domain of a network outside of
// every VPC: the network then has Services.
func InDomain(tx store.ReadTx, domain string) bool {
	return isJudgedIn(tx, domain) || len(store.EndpointSlicesByDomain(tx, domain)) > 0
}

func isJudgedIn(tx store.ReadTx, domain string) bool {
	for range scaled.ByDomain(tx, domain) {
		return true
	}
	return false
}

// mayName reports whether a slice may name the network of its domain, as far as the node
// knows it by the number that the operator has claimed for it.
func mayName(tx store.ReadTx, slice *store.EndpointSlice) bool {
	for _, claim := range multinet.DomainClaimsByNetwork(tx, store.NetworkUID(slice.Domain)) {
		return serves(claim.Network, slice.Namespace)
	}
	return true
}

// serves reports whether a network can have Services of a namespace. A tenant without
// admission policies may write slices with any label, and so take room in the tables from
// others. Networks that more than one namespace can use are left to those policies.
func serves(network store.NetworkRef, namespace string) bool {
	return network.Namespace == "" || network.Kind == multinet.KindDefinition || network.Namespace == namespace
}
