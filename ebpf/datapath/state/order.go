// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"net/netip"
	"slices"
)

// Sort brings every list into the order of its keys.
func (s *State) Sort() {
	slices.SortFunc(s.Interfaces, func(a, b Interface) int { return cmp.Compare(a.Ifindex, b.Ifindex) })
	slices.SortFunc(s.Addresses, func(a, b Address) int { return cmp.Or(cmp.Compare(a.VNI, b.VNI), a.IP.Compare(b.IP)) })
	slices.SortFunc(s.Subnets, func(a, b Subnet) int {
		return cmp.Or(cmp.Compare(a.VNI, b.VNI), ComparePrefixes(a.Prefix, b.Prefix))
	})
	slices.SortFunc(s.VPCs, func(a, b VPC) int { return cmp.Compare(a.VNI, b.VNI) })
	slices.SortFunc(s.Roles, func(a, b Role) int { return a.Key.compare(b.Key) })
	slices.SortFunc(s.Nodes, netip.Addr.Compare)
	slices.SortFunc(s.Own, netip.Addr.Compare)
	slices.SortFunc(s.NodePorts, NodePort.compare)
	slices.SortFunc(s.Announced, netip.Addr.Compare)
	slices.SortFunc(s.Closed, func(a, b ClosedPrefix) int {
		return cmp.Or(cmp.Compare(a.VNI, b.VNI), ComparePrefixes(a.Prefix, b.Prefix))
	})
	slices.SortFunc(s.Services, func(a, b Service) int {
		return cmp.Or(
			cmp.Compare(a.VNI, b.VNI),
			a.VIP.Compare(b.VIP),
			cmp.Compare(a.Port, b.Port),
			cmp.Compare(a.Proto, b.Proto),
		)
	})
	slices.SortFunc(s.Namespaces, func(a, b Namespace) int { return cmp.Compare(a.Cookie, b.Cookie) })
	slices.SortFunc(s.Probes, func(a, b ProbeTarget) int { return a.IP.Compare(b.IP) })
	slices.SortFunc(s.Hooks, func(a, b HookTarget) int { return a.IP.Compare(b.IP) })
}

// ComparePrefixes orders prefixes by their addresses, then their lengths.
func ComparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}
