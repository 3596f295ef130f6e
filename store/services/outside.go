// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"net/netip"

	"github.com/alioth-net/alioth/store"
)

// Spread is where connections to a port of a Service go that come to a node from
// outside of the VPC.
type Spread struct {
	// Here are the backends on the node: the ready ones, or where none is ready
	// those that are shutting down but serve still. Ascending, each once.
	Here []netip.AddrPort
	// Ready reports that those of Here are.
	Ready bool
	// Also are those of Here among which and Elsewhere one is chosen where all
	// nodes count: none of them if they are shutting down while others are ready.
	Also []netip.AddrPort
	// Elsewhere is how many backends each other node has.
	Elsewhere map[string]int
}

// SpreadOf returns the backends for connections to a port of a Service of the site's
// VPC from its node, for addresses of one family.
//
// The node names in slices are not verified for other nodes, because a node has the
// Address objects of a VPC only if it has pods of it. They only decide which node gets
// the packet: that node chooses among its own valid pods. An endpoint that a selector has
// found and that names no pod counts nowhere.
func SpreadOf(tx store.ReadTx, at Site, service *store.Service, port store.ServicePort, is4 bool) Spread {
	var ready, leavingHere []netip.AddrPort
	elsewhere, leaving := map[netip.AddrPort]string{}, map[netip.AddrPort]string{}
	inside := rangesOf(tx, at.VPC) // what is outside of them is a backend of no node's
	for backend, endpoint := range endpointsFor(tx, at.VPC, service, port, is4) {
		ip := backend.Addr()
		local := isBackendOn(tx, at.VPC, service, endpoint, ip, at.Node) || isOnHost(tx, at, service, endpoint, ip)
		other := isElsewhere(service, endpoint, at.Node) && (contains(inside, ip) || mayBeOnHost(tx, at, endpoint, ip))
		switch {
		case endpoint.Ready && local:
			ready = append(ready, backend)
		case endpoint.Ready && other:
			elsewhere[backend] = endpoint.Node
		case endpoint.Terminating && local:
			leavingHere = append(leavingHere, backend)
		case endpoint.Terminating && other:
			leaving[backend] = endpoint.Node
		}
	}
	s := Spread{Here: once(ready), Ready: len(ready) > 0, Also: once(ready), Elsewhere: countNodes(elsewhere)}
	if len(ready) == 0 {
		s.Here = once(leavingHere)
	}
	if len(ready)+len(elsewhere) == 0 {
		s.Also, s.Elsewhere = s.Here, countNodes(leaving)
	}
	return s
}

// isElsewhere reports whether an endpoint names another node and can count there.
func isElsewhere(service *store.Service, endpoint *store.Endpoint, node string) bool {
	return endpoint.Node != node && endpoint.Node != "" && (service.Selectorless || endpoint.PodUID != "")
}

// rangesOf returns the ranges of a VPC; one that is not there has none.
func rangesOf(tx store.ReadTx, vpc string) []netip.Prefix {
	if row := store.GetVPC(tx, vpc); row != nil {
		return row.Prefixes
	}
	return nil
}

func isBackendOn(tx store.ReadTx, vpc string, service *store.Service, endpoint *store.Endpoint, ip netip.Addr, node string) bool {
	held := backendAt(tx, vpc, service, endpoint, ip)
	return held != nil && held.Node == node && endpoint.Node == node
}

func countNodes(backends map[netip.AddrPort]string) map[string]int {
	nodes := map[string]int{}
	for _, node := range backends {
		nodes[node]++
	}
	return nodes
}
