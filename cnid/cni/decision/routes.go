// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// separate removes routes of interfaces in VPCs to destinations that the pod has a route to
// already: the kernel refuses a second one. Ranges of interfaces and routes of networks outside
// of VPCs come first, then routes of the earlier interface.
func separate(decisions []attachment.Decision) {
	taken := map[netip.Prefix]bool{}
	for _, d := range decisions {
		for _, own := range d.Addrs {
			taken[own.Masked()] = true
		}
		for _, route := range d.Routes {
			if !d.InVPC() && route.Table == 0 {
				taken[route.Dst] = true
			}
		}
	}
	for i, d := range decisions {
		if !d.InVPC() {
			continue
		}
		decisions[i].Routes = slices.DeleteFunc(d.Routes, func(r netif.Route) bool { return taken[r.Dst] })
		for _, route := range decisions[i].Routes {
			taken[route.Dst] = true
		}
	}
}

// routed returns the index of the attachment whose gateways serve the pod's default routes: the
// first one in a VPC, unless the pod has its default routes elsewhere. It is -1 without such an
// attachment.
func routed(list []netif.Interface) int {
	return slices.IndexFunc(list, func(a netif.Interface) bool { return a.Outside == "" && !a.NoDefaultRoute })
}

// routedNow reports whether the attachment of that name of a pod has default routes. If the objects
// of the pod do not describe it, the requested one has.
func routedNow(tx store.ReadTx, pod *store.Pod, name string, requested bool) bool {
	if pod == nil {
		return requested
	}
	list, _ := allocation.Interfaces(tx, pod)
	if !slices.ContainsFunc(list, func(a netif.Interface) bool { return a.Name == name }) {
		return requested
	}
	i := routed(list)
	return i >= 0 && list[i].Name == name
}

// insideRoutes returns the routes of an interface in a VPC whose pod has its default
// routes elsewhere: to the VPC's ranges, to Services, and to the node, which probes the pod
// and forwards ports to it, by the gateways of its subnets.
func insideRoutes(tx store.ReadTx, cfg plan.Config, vpc *store.VPC, d attachment.Decision) []netif.Route {
	destinations := slices.Concat(vpc.Prefixes, cfg.ServiceRanges)
	for _, shadows := range cfg.Shadows {
		node := journal.NodeShadow(shadows)
		destinations = append(destinations, netip.PrefixFrom(node, node.BitLen()))
	}
	for _, row := range store.ListServiceCIDRs(tx) {
		destinations = append(destinations, row.Prefixes...)
	}
	slices.SortFunc(destinations, netip.Prefix.Compare)
	var routes []netif.Route
	for _, dst := range slices.Compact(destinations) {
		for i, own := range d.Addrs {
			if own.Addr().Is4() == dst.Addr().Is4() && own.Masked() != dst {
				routes = append(routes, netif.Route{Dst: dst, Gateway: d.Gateways[i]})
			}
		}
	}
	return routes
}

// rebuiltRoutes returns the routes of an attachment in a VPC as they were decided, from all
// interfaces of the pod that have their objects.
func rebuiltRoutes(tx store.ReadTx, cfg plan.Config, pod *store.Pod, rec journal.Record) []netif.Route {
	if pod == nil {
		return nil
	}
	list, _ := allocation.Interfaces(tx, pod)
	own := slices.IndexFunc(list, func(a netif.Interface) bool { return a.Name == rec.Attachment })
	if own < 0 {
		return nil
	}
	decisions := make([]attachment.Decision, len(list))
	for i, described := range list {
		d := &decisions[i]
		switch vpc := store.GetVPC(tx, described.VPC); {
		case described.Outside != "":
			d.Binding, d.Addrs = journal.Binding{Outside: described.Outside}, described.Addresses
			if described.Link != nil {
				d.Config = *described.Link
			}
		case vpc != nil:
			d.VPC = vpc.Name
			rows, _ := completeSet(tx, pod.AsHolder(), pod.Node, described.Name)
			if missing := locate(tx, rows, &d.Binding, &d.Interface); missing == "" && described.NoDefaultRoute {
				d.Routes = insideRoutes(tx, cfg, vpc, *d)
			}
		}
	}
	separate(decisions)
	return decisions[own].Routes
}
