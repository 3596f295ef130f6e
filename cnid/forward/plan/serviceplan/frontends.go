// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceplan

import (
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/services"
	"github.com/alioth-net/alioth/store/sound"
)

// frontendBuilder plans the frontends that lead from outside to the backends of a Service. It
// finds local backends by Address objects and the journal, and the backends of other nodes by
// the node that slices name.
type frontendBuilder struct {
	tx   store.ReadTx
	cfg  Config
	here Here
	// nodes has the addresses of other nodes in the default VPC, by name and family (IPv4
	// first). They receive forwarded packets there.
	nodes map[string][2]netip.Addr
	// nodeIPs has all addresses of nodes, after their first use.
	nodeIPs map[netip.Addr]bool
}

func newFrontendBuilder(tx store.ReadTx, cfg Config, here Here) frontendBuilder {
	return frontendBuilder{tx: tx, cfg: cfg, here: here, nodes: map[string][2]netip.Addr{}}
}

// externalAddresses returns the external addresses of a Service: claimed for it as a load
// balancer, and granted to its tenant. frontendBuilder.port leaves out an address of a node or
// of the cluster, even if an object claims it.
func externalAddresses(tx store.ReadTx, v *services.Verdict) []netip.Addr {
	if !v.ExternalLoadBalancer {
		return v.ExternalIPs
	}
	var claimed []netip.Addr
	for _, address := range external.AddressesByService(tx, v.ServiceUID) {
		if !address.Deleting {
			claimed = append(claimed, address.IP)
		}
	}
	return append(claimed, v.ExternalIPs...)
}

// expose plans the frontends of a Service of a VPC, for the families of its addresses.
func (b *frontendBuilder) expose(s *servicePlan, vpc *store.VPC, v *services.Verdict) {
	s.preserves = v.ExternalNodeLocal
	if v.HealthCheckNodePort != 0 {
		check := b.healthCheck(v)
		s.health = &check
	}
	for _, port := range v.Ports {
		if proto := Protocol(port.Protocol); proto != 0 {
			for _, vip := range v.ClusterIPs {
				b.port(s, vpc, v, port, proto, ipfamily.Of(vip))
			}
		}
	}
	// Of two that have one address, protocol and port the first counts.
	slices.SortStableFunc(s.frontends, (*ruleset.Frontend).Compare)
	s.frontends = slices.CompactFunc(s.frontends, func(a, b *ruleset.Frontend) bool { return a.Compare(b) == 0 })
}

// port adds one port of a Service for one family: at the node's addresses, and at the external
// addresses.
func (b *frontendBuilder) port(
	s *servicePlan,
	vpc *store.VPC,
	v *services.Verdict,
	port store.ServicePort,
	proto uint8,
	family ipfamily.Family,
) {
	frontend := b.frontend(vpc, v, port, proto, family)
	if port.NodePort != 0 {
		node := frontend
		s.frontends = append(s.frontends, &node)
		if vpc.EgressMasquerade && vpc.Name != b.cfg.DefaultVPC { // pods of the default VPC reach nodes anyhow
			s.ports = append(s.ports, state.NodePort{VNI: vpc.VNI, Proto: proto, Port: port.NodePort, Family: family})
		}
	}
	frontend.Port, frontend.Sources = port.Port, v.SourceRanges
	for _, ip := range externalAddresses(b.tx, v) {
		if !family.Has(ip) || b.isInside(ip) {
			continue
		}
		external := frontend
		external.IP = ip
		s.frontends = append(s.frontends, &external)
	}
}

// isInside reports whether an address is one of a node or of the cluster's own ranges.
func (b *frontendBuilder) isInside(ip netip.Addr) bool {
	if b.nodeIPs == nil {
		b.nodeIPs = map[netip.Addr]bool{}
		for _, node := range store.ListNodes(b.tx) {
			for _, own := range node.Reported() {
				b.nodeIPs[own] = true
			}
		}
	}
	ranges := append(slices.Clone(b.cfg.Shadows), b.cfg.ServiceRanges...)
	if home := store.GetVPC(b.tx, b.cfg.DefaultVPC); home != nil {
		ranges = append(ranges, home.Prefixes...)
	}
	return b.nodeIPs[ip] || slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// healthCheck counts the backends of a Service here, by the first of its families.
func (b *frontendBuilder) healthCheck(v *services.Verdict) HealthCheck {
	ready := map[netip.Addr]bool{}
	if len(v.ClusterIPs) == 0 {
		return HealthCheck{Ref{v.Namespace, v.Service}, v.HealthCheckNodePort, 0}
	}
	for _, port := range v.Ports {
		spread := v.Spread(b.tx, b.cfg.Node, port, ipfamily.Of(v.ClusterIPs[0]))
		for _, backend := range spread.Here {
			if spread.Ready {
				ready[backend.Addr()] = true
			}
		}
	}
	return HealthCheck{Ref{v.Namespace, v.Service}, v.HealthCheckNodePort, len(ready)}
}

func (b *frontendBuilder) frontend(
	vpc *store.VPC,
	v *services.Verdict,
	port store.ServicePort,
	proto uint8,
	family ipfamily.Family,
) ruleset.Frontend {
	spread := v.Spread(b.tx, b.cfg.Node, port, family)
	frontend := ruleset.Frontend{
		Protocol: proto, IP: family.Unspecified(), Port: port.NodePort, Affinity: v.Affinity, Local: v.ExternalNodeLocal,
		Here: atMost(b.reached(vpc.Name, proto, spread.Here)), All: b.reached(vpc.Name, proto, spread.Also),
	}
	if v.Affinity > 0 {
		frontend.VNI = vpc.VNI
	}
	if frontend.Local {
		frontend.Hidden = b.hidden(vpc, family)
	}
	if port.NodePort == 0 {
		spread.Elsewhere = nil // other nodes take nothing for it
	}
	if frontend.Local && len(spread.Elsewhere) > 0 {
		frontend.Own = atMost(
			b.elsewhere(frontend.All, spread, port.NodePort, func(node string) netip.Addr { return b.openly(node, family) }),
		)
	}
	frontend.All = atMost(
		b.elsewhere(frontend.All, spread, port.NodePort, func(node string) netip.Addr { return b.ofNode(node, family) }),
	)
	return frontend
}

// elsewhere adds the places of other nodes, which have the addresses that at returns.
func (b *frontendBuilder) elsewhere(
	places []netip.AddrPort,
	spread services.Spread,
	port uint16,
	at func(node string) netip.Addr,
) []netip.AddrPort {
	places = slices.Clone(places)
	for _, name := range slices.Sorted(maps.Keys(spread.Elsewhere)) {
		if ip := at(name); ip.IsValid() {
			places = append(places, slices.Repeat([]netip.AddrPort{netip.AddrPortFrom(ip, port)}, spread.Elsewhere[name])...)
		}
	}
	return places
}

// hidden returns the ranges of a family that pods of a VPC can't answer as clients outside: an
// answer would lead to something else.
func (b *frontendBuilder) hidden(vpc *store.VPC, family ipfamily.Family) []netip.Prefix {
	list := append(slices.Clone(vpc.Prefixes), sound.LinkLocal()...)
	if home := store.GetVPC(b.tx, b.cfg.DefaultVPC); home != nil {
		list = append(list, home.Prefixes...)
	}
	list = append(append(list, b.cfg.Shadows...), b.cfg.ServiceRanges...)
	list = slices.DeleteFunc(list, func(p netip.Prefix) bool { return !family.Has(p.Addr()) })
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}

func atMost(list []netip.AddrPort) []netip.AddrPort {
	return list[:min(len(list), state.MaxBackends)]
}

// reached returns the places of backends on this node: a pod at its shadow, and a pod on the
// node's network at the node's address. A pod that is not attached has none, nor has the port of
// the tunnel, because only nodes may send to it.
func (b *frontendBuilder) reached(vpc string, proto uint8, backends []netip.AddrPort) []netip.AddrPort {
	var list []netip.AddrPort
	for _, backend := range backends {
		at, ok := b.here.Reached[VPCAddress{vpc, backend.Addr()}]
		tunnel := at == backend.Addr() && proto == unix.IPPROTO_UDP && backend.Port() == b.cfg.TunnelPort
		if ok && !tunnel {
			list = append(list, netip.AddrPortFrom(at, backend.Port()))
		}
	}
	return list
}

// openly returns the address of another node on the nodes' own network, where it sees the
// client's address. A node without such an address of the family has its address in the default
// VPC.
func (b *frontendBuilder) openly(name string, family ipfamily.Family) netip.Addr {
	if row := store.GetNode(b.tx, name); row != nil {
		for _, ip := range row.Addresses {
			if family.Has(ip) {
				return ip
			}
		}
	}
	return b.ofNode(name, family)
}

// ofNode returns the address of another node in the default VPC, or the zero value.
func (b *frontendBuilder) ofNode(name string, family ipfamily.Family) netip.Addr {
	if !b.here.Relays {
		return netip.Addr{}
	}
	addrs, known := b.nodes[name]
	if !known {
		for _, own := range store.OwnAddresses(b.tx, name, b.cfg.DefaultVPC) {
			addrs[ipfamily.Of(own.IP).Index()] = own.IP
		}
		b.nodes[name] = addrs
	}
	return addrs[family.Index()]
}
