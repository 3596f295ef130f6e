// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/sound"
)

// closed adds what no VPC's egress must reach. Where two entries have one prefix,
// the first class wins.
func (b *nodeBuilder) closed() {
	b.part.Closed = nil
	seen := map[netip.Prefix]bool{}
	add := func(class state.ClosedClass, prefixes ...netip.Prefix) {
		for _, whole := range prefixes {
			for _, prefix := range sound.Apart(whole) { // no IPv4 address may match a range of IPv6
				if !seen[prefix] {
					seen[prefix] = true
					b.part.Closed = append(b.part.Closed, state.ClosedPrefix{Prefix: prefix, Class: class})
				}
			}
		}
	}
	add(state.ClosedShadow, b.in.Shadows...)
	if vpc := store.GetVPC(b.tx, b.in.DefaultVPC); vpc != nil {
		add(state.ClosedDefaultVPC, vpc.Prefixes...)
	}
	add(state.ClosedService, b.in.ServiceRanges...)
	add(state.ClosedLinkLocal, sound.LinkLocal()...)
	add(state.ClosedLinkLocal,
		// Addresses that mean the node itself reach even less far (RFC 1122 section
		// 3.2.1.3, RFC 4291 section 2.5).
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("::/128"), netip.MustParsePrefix("::1/128"))
	// 224.0.0.0/3 has the multicast, the reserved and the broadcast space.
	add(state.ClosedMulticast, netip.MustParsePrefix("224.0.0.0/3"), netip.MustParsePrefix("ff00::/8"))
	for _, row := range store.ListServiceCIDRs(b.tx) { // some may have been added
		add(state.ClosedService, row.Prefixes...)
	}
	for _, row := range store.ListNodes(b.tx) {
		for _, ip := range slices.Concat(row.Addresses, row.AllAddresses) {
			add(state.ClosedNode, single(ip))
		}
	}
	if b.in.NodePorts {
		for _, row := range external.ListAddresses(b.tx) { // they lead to nodes
			add(state.ClosedBalancer, single(row.IP))
		}
	}
	for _, ip := range b.in.Metadata {
		add(state.ClosedMetadata, single(ip))
	}
	slices.SortFunc(b.part.Closed, func(a, b state.ClosedPrefix) int { return a.Prefix.Compare(b.Prefix) })
}

// closedLists returns the entries of one VPC's own lists. The datapath uses the longest
// prefix, and a denied range has precedence over any allowed range inside of it: these are
// left out. IPv4 and IPv6 have an entry each for all addresses, because IPv4 addresses are a
// part of IPv6 in the datapath.
func closedLists(vpc *store.VPC, metadata []netip.Addr) []state.ClosedPrefix {
	if !vpc.EgressMasquerade || len(vpc.EgressDeny)+len(vpc.EgressAllow) == 0 {
		return nil
	}
	classes := map[netip.Prefix]state.ClosedClass{}
	for _, family := range ipfamily.Both {
		prefix := family.All()
		classes[prefix] = state.ClosedUnlisted
		if len(vpc.EgressAllow) == 0 {
			classes[prefix] = state.OpenListed
		}
	}
	for _, prefix := range vpc.EgressAllow {
		classes[prefix] = state.OpenListed
		if prefix.IsSingleIP() && slices.Contains(metadata, prefix.Addr()) {
			classes[prefix] = state.OpenMetadata
		}
	}
	maps.DeleteFunc(
		classes,
		func(prefix netip.Prefix, _ state.ClosedClass) bool { return covered(prefix, vpc.EgressDeny) },
	)
	for _, prefix := range vpc.EgressDeny {
		classes[prefix] = state.ClosedDenied
	}
	var list []state.ClosedPrefix
	for prefix, class := range classes {
		list = append(list, state.ClosedPrefix{VNI: vpc.VNI, Prefix: prefix, Class: class})
	}
	return list
}

// covered reports whether one of the ranges contains the whole of a prefix.
func covered(prefix netip.Prefix, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(
		ranges,
		func(r netip.Prefix) bool { return r.Bits() <= prefix.Bits() && r.Contains(prefix.Addr()) },
	)
}

// single is the prefix that has this address alone.
func single(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }
