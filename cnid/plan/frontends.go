// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/scaled"
)

// frontendBuilder plans what leads from outside to the backends of Services. It knows
// of all Services, and of backends where they are: those here by Address objects and
// the journal, those of other nodes by the node that slices name.
type frontendBuilder struct {
	tx   store.ReadTx
	in   Input
	live map[vpcAddress]netip.Addr
	// nodes are the addresses of other nodes in the default VPC, by name and family
	// (IPv4 first), in which they take what is sent on; none where this node has no
	// address there.
	nodes map[string][2]netip.Addr
	// nodeIPs are all addresses of nodes, once they have been asked for.
	nodeIPs []netip.Addr
	list    []*netfilter.Frontend
	health  []HealthCheck
	// border is what VPCs have to know of it, by name.
	border map[string]border
}

// border is what the part of a VPC has of how its Services are reached from outside.
type border struct {
	// fronted says that its pods are shown who asks.
	fronted bool
	// ports are those of nodes that lead to its Services, where its egress may lead to
	// nodes; those of the default VPC reach nodes anyhow.
	ports []datapath.NodePort
}

// vpcAddress is an address of a VPC.
type vpcAddress struct {
	vpc string
	ip  netip.Addr
}

// frontends are those of all Services that belong to a VPC.
func (b *nodeBuilder) frontends() *frontendBuilder {
	f := &frontendBuilder{tx: b.tx, in: b.in, live: map[vpcAddress]netip.Addr{}, border: map[string]border{}}
	if !b.in.NodePorts {
		return f
	}
	for _, rec := range b.live {
		for _, prefix := range rec.Addrs {
			for _, shadow := range shadowsOf(rec) {
				if shadow.Is4() == prefix.Addr().Is4() {
					f.live[vpcAddress{rec.VPC, prefix.Addr()}] = shadow
				}
			}
		}
	}
	if home := b.vpcs[b.in.DefaultVPC]; home != nil && len(home.here.node.Addrs) > 0 {
		f.nodes = map[string][2]netip.Addr{}
	}
	for _, own := range b.own() { // under which pods on the node's network are reached
		f.live[vpcAddress{b.in.DefaultVPC, own}] = own
	}
	rows := slices.DeleteFunc(store.ListServices(b.tx), func(row *store.Service) bool { return !isReachedFromOutside(row) })
	slices.SortStableFunc(rows, scaled.Age)
	for _, row := range rows {
		f.service(row)
	}
	// Of two that are the same address and port, the older Service has it.
	slices.SortStableFunc(f.list, (*netfilter.Frontend).Compare)
	f.list = slices.CompactFunc(f.list, func(a, b *netfilter.Frontend) bool { return a.Compare(b) == 0 })
	return f
}

func isReachedFromOutside(row *store.Service) bool {
	return len(row.ExternalIPs) > 0 || row.LoadBalancer == store.LoadBalancerExternal ||
		hasNodePorts(row)
}

// hasNodePorts reports whether ports of every node are the Service's.
func hasNodePorts(row *store.Service) bool {
	return row.HealthCheckNodePort != 0 || slices.ContainsFunc(row.Ports, func(p store.ServicePort) bool { return p.NodePort != 0 })
}

// externalAddresses are those of a Service that are not the node's: claimed for it as a
// load balancer, which has a list of who may ask, and granted to its tenant. What
// leads to nodes or inside of the cluster is none, whoever claims it.
func externalAddresses(tx store.ReadTx, row *store.Service) (claimed, granted []netip.Addr) {
	if row.LoadBalancer == store.LoadBalancerExternal {
		for _, address := range store.ExternalAddressesByService(tx, row.UID) {
			if !address.Deleting {
				claimed = append(claimed, address.IP)
			}
		}
	}
	return claimed, scaled.ExternalIPs(tx, row)
}

// outside marks what is planned for clients from outside, if it goes by a row.
func (s *stale) outside(tx store.ReadTx, row any, in Input) {
	if !in.NodePorts {
		return
	}
	switch row := row.(type) {
	case *store.Service:
		s.node = s.node || isReachedFromOutside(row)
	case *store.EndpointSlice:
		service := store.GetService(tx, row.Namespace, row.Service)
		s.node = s.node || service != nil && isReachedFromOutside(service)
	case *store.Address:
		s.node = s.node || row.Node == in.Node || row.Holder.Kind == store.HolderNode
	case *store.HostPod:
		s.node = s.node || row.Node == in.Node
	case *store.VPC, *store.Namespace, *store.Network, *store.ExternalPool, *store.ExternalAddress:
		s.node = true
	}
}

// service adds the ports of one Service, for the families that it has addresses of.
func (b *frontendBuilder) service(row *store.Service) {
	vpc := store.GetVPC(b.tx, scaled.VPCOf(b.tx, row, b.in.DefaultVPC))
	if vpc == nil {
		return
	}
	if row.ExternalNodeLocal {
		known := b.border[vpc.Name]
		known.fronted = true
		b.border[vpc.Name] = known
	}
	if row.HealthCheckNodePort != 0 {
		b.health = append(b.health, b.healthCheck(vpc.Name, row))
	}
	for _, port := range row.Ports {
		if proto := protocol(port.Protocol); proto != 0 {
			for _, vip := range row.ClusterIPs {
				b.port(vpc, row, port, proto, vip.Is4())
			}
		}
	}
}

// port adds one port of a Service for one family: at the node's addresses, and at
// those that lead to all nodes.
func (b *frontendBuilder) port(vpc *store.VPC, row *store.Service, port store.ServicePort, proto uint8, is4 bool) {
	frontend := b.frontend(vpc, row, port, proto, is4)
	if port.NodePort != 0 {
		node := frontend
		b.list = append(b.list, &node)
		b.opens(vpc, datapath.NodePort{VNI: vpc.VNI, Proto: proto, Port: port.NodePort, Is4: is4})
	}
	frontend.Port = port.Port
	claimed, granted := externalAddresses(b.tx, row)
	for _, ip := range slices.Concat(claimed, granted) {
		if ip.Is4() != is4 || b.isInside(ip) {
			continue
		}
		frontend.IP, frontend.Sources = ip, nil
		if slices.Contains(claimed, ip) {
			frontend.Sources = row.SourceRanges
		}
		exposed := frontend
		b.list = append(b.list, &exposed)
	}
}

// opens notes that pods of a VPC may ask for one of their own Services at a node.
func (b *frontendBuilder) opens(vpc *store.VPC, port datapath.NodePort) {
	known := b.border[vpc.Name]
	if vpc.EgressMasquerade && vpc.Name != b.in.DefaultVPC && !slices.Contains(known.ports, port) {
		known.ports = append(known.ports, port)
		b.border[vpc.Name] = known
	}
}

// isInside reports whether an address is one of a node or of the cluster's own ranges.
func (b *frontendBuilder) isInside(ip netip.Addr) bool {
	if b.nodeIPs == nil {
		b.nodeIPs = addressesOf(store.ListNodes(b.tx)...)
	}
	ranges := append(slices.Clone(b.in.Shadows), b.in.ServiceRanges...)
	if home := store.GetVPC(b.tx, b.in.DefaultVPC); home != nil {
		ranges = append(ranges, home.Prefixes...)
	}
	return slices.Contains(b.nodeIPs, ip) || slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// healthCheck counts the backends of a Service here, by the first of its families.
func (b *frontendBuilder) healthCheck(vpc string, row *store.Service) HealthCheck {
	ready := map[netip.Addr]bool{}
	for _, port := range row.Ports {
		spread := scaled.SpreadOf(b.tx, b.site(vpc), row, port, row.ClusterIPs[0].Is4())
		for _, backend := range spread.Here {
			if spread.Ready {
				ready[backend.Addr()] = true
			}
		}
	}
	return HealthCheck{ServiceRef{row.Namespace, row.Name}, row.HealthCheckNodePort, len(ready)}
}

func (b *frontendBuilder) site(vpc string) scaled.Site {
	return scaled.Site{VPC: vpc, DefaultVPC: b.in.DefaultVPC, Node: b.in.Node}
}

func (b *frontendBuilder) frontend(vpc *store.VPC, row *store.Service, port store.ServicePort, proto uint8, is4 bool) netfilter.Frontend {
	spread := scaled.SpreadOf(b.tx, b.site(vpc.Name), row, port, is4)
	frontend := netfilter.Frontend{
		Protocol: proto, IP: all6.Addr(), Port: port.NodePort, Affinity: row.Affinity, Local: row.ExternalNodeLocal,
		Here: atMost(b.places(vpc.Name, proto, spread.Here)), All: b.places(vpc.Name, proto, spread.Also),
	}
	if is4 {
		frontend.IP = all4.Addr()
	}
	if row.Affinity > 0 {
		frontend.VNI = vpc.VNI
	}
	if frontend.Local {
		frontend.Hidden = b.hidden(vpc, is4)
	}
	if port.NodePort == 0 {
		spread.Elsewhere = nil // other nodes take nothing for it
	}
	if frontend.Local && len(spread.Elsewhere) > 0 {
		frontend.Own = atMost(b.elsewhere(frontend.All, spread, port.NodePort, func(node string) netip.Addr { return b.openly(node, is4) }))
	}
	frontend.All = atMost(b.elsewhere(frontend.All, spread, port.NodePort, func(node string) netip.Addr { return b.ofNode(node, is4) }))
	return frontend
}

// elsewhere adds to places those of other nodes, which have the addresses that at returns.
func (b *frontendBuilder) elsewhere(places []netip.AddrPort, spread scaled.Spread, port uint16, at func(node string) netip.Addr) []netip.AddrPort {
	places = slices.Clone(places)
	for _, name := range slices.Sorted(maps.Keys(spread.Elsewhere)) {
		if ip := at(name); ip.IsValid() {
			places = append(places, slices.Repeat([]netip.AddrPort{netip.AddrPortFrom(ip, port)}, spread.Elsewhere[name])...)
		}
	}
	return places
}

// hidden are the addresses of a family that pods of a VPC can't answer when they are
// asked by one from outside: they lead somewhere else.
func (b *frontendBuilder) hidden(vpc *store.VPC, is4 bool) []netip.Prefix {
	list := append(slices.Clone(vpc.Prefixes), linkLocal...)
	if home := store.GetVPC(b.tx, b.in.DefaultVPC); home != nil {
		list = append(list, home.Prefixes...)
	}
	list = append(append(list, b.in.Shadows...), b.in.ServiceRanges...)
	list = slices.DeleteFunc(list, func(p netip.Prefix) bool { return p.Addr().Is4() != is4 })
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}

func atMost(list []netip.AddrPort) []netip.AddrPort {
	return list[:min(len(list), datapath.MaxBackends)]
}

// places are where backends of this node are reached: pods by their shadows, those on
// its network by its own address. One that is not attached has none, nor has the port of
// the tunnel, to which nobody leads who is not a node.
func (b *frontendBuilder) places(vpc string, proto uint8, backends []netip.AddrPort) []netip.AddrPort {
	var list []netip.AddrPort
	for _, backend := range backends {
		at, ok := b.live[vpcAddress{vpc, backend.Addr()}]
		tunnel := at == backend.Addr() && proto == unix.IPPROTO_UDP && backend.Port() == b.in.TunnelPort
		if ok && !tunnel {
			list = append(list, netip.AddrPortFrom(at, backend.Port()))
		}
	}
	return list
}

// openly is the address of another node on the nodes' own network, at which it sees who
// asks; where it has none of the family, the one in the default VPC.
func (b *frontendBuilder) openly(name string, is4 bool) netip.Addr {
	if row := store.GetNode(b.tx, name); row != nil {
		for _, ip := range row.Addresses {
			if ip.Is4() == is4 {
				return ip
			}
		}
	}
	return b.ofNode(name, is4)
}

// ofNode is the address of another node in the default VPC, or the zero value.
func (b *frontendBuilder) ofNode(name string, is4 bool) netip.Addr {
	if b.nodes == nil {
		return netip.Addr{}
	}
	addrs, known := b.nodes[name]
	if !known {
		for _, own := range OwnAddresses(b.tx, name, b.in.DefaultVPC) {
			addrs[familyIndex(own.IP.Is4())] = own.IP
		}
		b.nodes[name] = addrs
	}
	return addrs[familyIndex(is4)]
}

func familyIndex(is4 bool) int {
	if is4 {
		return 0
	}
	return 1
}
