// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"net/netip"
	"slices"
)

// within reports whether a range has the address.
func within(ip netip.Addr, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// serviceRanges returns the ranges of the values, or else the ranges of the cluster, as the chart
// does.
func (c Cluster) serviceRanges(v Values) []netip.Prefix {
	if len(v.ServiceCIDRs) > 0 {
		return v.ServiceCIDRs
	}
	return c.ServiceCIDRs
}

// use is a range that something of the cluster has already.
type use struct {
	prefix netip.Prefix
	what   string
	// passing: the use ends with the present network.
	passing bool
}

// uses returns the used ranges of the cluster: ranges of Services, addresses of nodes, and ranges
// of the present network for pods.
func (c Cluster) uses(v Values) (list []use) {
	for _, p := range c.serviceRanges(v) {
		list = append(list, use{prefix: p, what: "the range of Services"})
	}
	for _, n := range c.Nodes {
		for _, ip := range n.Addresses {
			list = append(
				list,
				use{prefix: netip.PrefixFrom(ip, ip.BitLen()), what: fmt.Sprintf("the address of node %s", n.Name)},
			)
		}
	}
	for _, endpoint := range c.Endpoints {
		list = append(
			list,
			use{prefix: netip.PrefixFrom(endpoint.Addr(), endpoint.Addr().BitLen()), what: "the address of the API server"},
		)
	}
	if c.hasAlioth() {
		return list // pods are in the ranges of VPCs
	}
	for _, n := range c.Nodes {
		for _, p := range n.PodCIDRs {
			list = append(list, use{prefix: p, what: fmt.Sprintf("the pod range of node %s", n.Name), passing: true})
		}
	}
	for _, ip := range c.PodIPs {
		list = append(
			list,
			use{prefix: netip.PrefixFrom(ip, ip.BitLen()), what: "the address of a running pod", passing: true},
		)
	}
	return list
}

// judgeRanges compares the ranges of the values with the ranges of the cluster. It reports the
// first overlap of each range, because others have the same remedy.
func (c Cluster) judgeRanges(l *list, v Values) {
	uses := c.uses(v)
	report := func(value string, ranges []netip.Prefix, passing bool) {
		for _, mine := range ranges {
			i := slices.IndexFunc(uses, func(u use) bool { return u.passing == passing && u.prefix.Overlaps(mine) })
			if i < 0 {
				continue
			}
			remedy := "set " + value + " to a range that nothing else uses"
			if passing {
				remedy += ", because nodes would route both networks while pods of the present one run; a cluster without running pods may keep the range"
			}
			l.add(
				Blocking,
				Ranges,
				remedy,
				"the chart value %s has %s, which overlaps %s (%s)",
				value,
				mine,
				uses[i].what,
				uses[i].prefix,
			)
		}
	}
	// Pods of other VPCs may have any addresses; nodes route the addresses of the default VPC.
	if v.DefaultVPC.Enabled {
		report("defaultVPC.cidrs", v.DefaultVPC.CIDRs, false)
		if len(c.PodIPs) > 0 {
			report("defaultVPC.cidrs", v.DefaultVPC.CIDRs, true)
		}
	}
	report("shadowCIDRs", v.ShadowCIDRs, false)
	if len(v.ServiceCIDRs) == 0 {
		return
	}
	for _, have := range c.ServiceCIDRs {
		if !slices.ContainsFunc(
			v.ServiceCIDRs,
			func(p netip.Prefix) bool { return p.Contains(have.Addr()) && p.Bits() <= have.Bits() },
		) {
			l.add(
				Blocking,
				Ranges,
				"leave the value empty, or give all ranges of the cluster",
				"the chart value serviceCIDRs lacks %s, which a ServiceCIDR of the cluster has",
				have,
			)
		}
	}
}
