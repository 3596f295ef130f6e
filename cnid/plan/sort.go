// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// sorted returns what was collected in a fixed order, each key once.
func (b *builder) sorted() Wanted {
	s := &b.want.Datapath
	s.Addresses = slices.SortedFunc(maps.Values(b.addresses), func(a, b datapath.Address) int {
		return cmp.Or(cmp.Compare(a.VNI, b.VNI), a.IP.Compare(b.IP))
	})
	slices.SortFunc(s.Interfaces, func(a, b datapath.Interface) int { return cmp.Compare(a.Ifindex, b.Ifindex) })
	slices.SortFunc(s.Subnets, func(a, b datapath.Subnet) int {
		return cmp.Or(cmp.Compare(a.VNI, b.VNI), a.Prefix.Compare(b.Prefix))
	})
	slices.SortFunc(s.VPCs, func(a, b datapath.VPC) int { return cmp.Compare(a.VNI, b.VNI) })
	slices.SortFunc(s.Closed, func(a, b datapath.ClosedPrefix) int {
		return cmp.Or(cmp.Compare(a.VNI, b.VNI), a.Prefix.Compare(b.Prefix))
	})
	slices.SortFunc(s.Services, compareServices)
	s.Services = slices.CompactFunc(s.Services, func(a, b datapath.Service) bool { return compareServices(a, b) == 0 })
	slices.SortFunc(s.Probes, func(a, b datapath.ProbeTarget) int { return a.IP.Compare(b.IP) })
	slices.SortFunc(s.Hooks, func(a, b datapath.HookTarget) int {
		return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.Port, b.Port))
	})
	slices.SortFunc(s.Namespaces, func(a, b datapath.Namespace) int { return cmp.Compare(a.Cookie, b.Cookie) })
	slices.SortFunc(b.want.Lost, func(a, b Lost) int {
		return cmp.Compare(a.Record.Device.HostIfindex, b.Record.Device.HostIfindex)
	})
	slices.SortFunc(b.want.Devices.Pods, func(a, b netdev.Pod) int { return cmp.Compare(a.Ifindex, b.Ifindex) })
	return b.want
}

func compareServices(a, b datapath.Service) int {
	return cmp.Or(cmp.Compare(a.VNI, b.VNI), a.VIP.Compare(b.VIP), cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Port, b.Port))
}
