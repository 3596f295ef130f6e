// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attachment"
	"github.com/alioth-net/alioth/store"
)

// routed returns the index of the attachment whose gateways are those of the pod's default
// routes: the first one in a VPC, unless the pod has its default routes elsewhere. It is -1
// without one. The annotation alone decides that, because it concerns the pod alone.
func routed(list []annotations.HashedAttachment) int {
	return slices.IndexFunc(list, func(a annotations.HashedAttachment) bool { return a.Outside == "" && !a.NoDefaultRoute })
}

// routedNow reports whether the attachment of that name of a pod has default routes.
// Without an annotation the requested one has.
func routedNow(pod *store.Pod, name string, requested bool) bool {
	if pod == nil {
		return requested
	}
	list, err := annotations.ParseAttachmentsHashed(pod.Attachments)
	if err != nil || len(list) == 0 {
		return requested
	}
	i := routed(list)
	return i >= 0 && nameOf(i, list[i].Attachment) == name
}

// insideRoutes returns the routes of an interface in a VPC whose pod has its default
// routes elsewhere: to the VPC's ranges and to Services, by the gateways of its subnets.
func insideRoutes(tx store.ReadTx, services []netip.Prefix, vpc *store.VPC, d attachment.Decision) []attach.Route {
	destinations := slices.Concat(vpc.Prefixes, services)
	for _, row := range store.ListServiceCIDRs(tx) {
		destinations = append(destinations, row.Prefixes...)
	}
	slices.SortFunc(destinations, netip.Prefix.Compare)
	var routes []attach.Route
	for _, dst := range slices.Compact(destinations) {
		for i, own := range d.Addrs {
			if own.Addr().Is4() == dst.Addr().Is4() && own.Masked() != dst {
				routes = append(routes, attach.Route{Dst: dst, Gateway: d.Gateways[i]})
			}
		}
	}
	return routes
}
