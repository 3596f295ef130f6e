// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
)

// nodePlan is what a node has to hold beside its VPCs. It is never changed:
// another one takes its place.
type nodePlan struct {
	part    *datapath.State
	devices netdev.State
	filter  netfilter.State
	health  []HealthCheck
	// border is what VPCs have of their Services' ways from outside, by name.
	border map[string]border
	// closed are ports of the node that lead to no pod, though one asks for them.
	closed []ClosedPort
	lost   []Lost
}

// nodeBuilder plans what belongs to no VPC alone; its methods are called once
// each.
type nodeBuilder struct {
	tx store.ReadTx
	in Input
	// reserved are what ReservedAddresses returns.
	reserved []netip.Addr
	// vpcs by name.
	vpcs map[string]*vpcPlan
	// live are the records to be programmed, the oldest first.
	live []journal.Record
	part datapath.State
}

// planNode plans it from what the VPCs have here, from the rows of the default
// VPC, and from those of nodes, pods and services.
func planNode(tx store.ReadTx, in Input, vpcs map[string]*vpcPlan) *nodePlan {
	b := &nodeBuilder{tx: tx, in: in, reserved: ReservedAddresses(tx, in.Config), vpcs: vpcs}
	var lost []Lost
	for _, v := range vpcs {
		b.live = append(b.live, v.here.live...)
		lost = append(lost, v.here.lost...)
	}
	slices.SortFunc(b.live, func(a, b journal.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortFunc(lost, func(a, b Lost) int {
		return cmp.Compare(a.Record.Device.HostIfindex, b.Record.Device.HostIfindex)
	})
	b.nodes()
	b.announced()
	b.closed()
	b.services()
	b.namespaces()
	b.probes()
	b.sort()
	part := b.part // a pointer into b would keep the whole snapshot of the store
	frontends := b.frontends()
	ports, closed := b.hostPorts()
	return &nodePlan{
		part: &part, devices: b.devices(), filter: b.filter(frontends.list, ports),
		health: frontends.health, border: frontends.border, closed: closed, lost: lost,
	}
}

// nodes adds the addresses from which tunnel packets are accepted. This node's
// own are not among them: nobody else may send under them.
func (b *nodeBuilder) nodes() {
	var own, others []netip.Addr
	for _, row := range store.ListNodes(b.tx) {
		if row.Name == b.in.Node {
			own = append(own, row.Addresses...)
			continue
		}
		others = append(others, row.Addresses...)
	}
	b.part.Nodes = unique(slices.DeleteFunc(others, func(ip netip.Addr) bool { return slices.Contains(own, ip) }))
}

// announced adds the external addresses that this node has been chosen for.
func (b *nodeBuilder) announced() {
	for _, row := range store.ListExternalAddresses(b.tx) {
		if b.in.NodePorts && row.Node == b.in.Node && !row.Deleting {
			b.part.Announced = append(b.part.Announced, row.IP)
		}
	}
	slices.SortFunc(b.part.Announced, netip.Addr.Compare)
}

// unique returns a sorted copy without duplicates.
func unique[T interface {
	comparable
	Compare(T) int
}](list []T) []T {
	sorted := slices.SortedFunc(slices.Values(list), T.Compare)
	return slices.Compact(sorted)
}

// devices are the host ends of the pods, and what of the default VPC the node
// has an interface in.
func (b *nodeBuilder) devices() netdev.State {
	var s netdev.State
	for _, shadow := range b.in.Shadows {
		s.Shadows = append(s.Shadows, journal.NodeShadow(shadow))
	}
	if home := b.vpcs[b.in.DefaultVPC]; home != nil {
		s.Node = home.here.node
	}
	for _, rec := range b.live {
		s.Pods = append(s.Pods, netdev.Pod{
			Device: rec.HostIfName, Ifindex: rec.Device.HostIfindex, Shadows: shadowsOf(rec),
			MTU: rec.MTU, MAC: datapath.VirtualMAC, Loopback: b.onLoopback(rec),
		})
	}
	slices.SortFunc(s.Pods, func(a, b netdev.Pod) int { return cmp.Compare(a.Ifindex, b.Ifindex) })
	return s
}

// own are this node's addresses, by which pods on its network are known.
func (b *nodeBuilder) own() []netip.Addr {
	if self := store.GetNode(b.tx, b.in.Node); self != nil {
		return self.Addresses
	}
	return nil
}

func (b *nodeBuilder) filter(frontends []*netfilter.Frontend, ports []netfilter.HostPort) netfilter.State {
	s := netfilter.State{
		Shadows:       b.in.Shadows,
		TunnelPort:    b.in.TunnelPort,
		PodDevices:    netdev.PodDevices,
		NodeDevice:    netdev.NodeDevice,
		SealedDevices: []string{netdev.TunnelDevice, netdev.NodePeerDevice, netdev.FragmentPeerDevice},
		MarkMask:      datapath.MarkMask, SharedMark: datapath.MarkShared, EgressMark: datapath.MarkEgress, NodeMark: datapath.MarkNode,
		OpeningMark: datapath.MarkOpening, TunneledMark: datapath.MarkTunneled,
		FlowsPerShadow: b.in.FlowsPerShadow, HostPorts: ports, Frontends: frontends,
	}
	if self := store.GetNode(b.tx, b.in.Node); self != nil {
		s.Addresses = unique(addressesOf(self))
	}
	for _, shadow := range b.in.Shadows {
		s.NodeShadows = append(s.NodeShadows, journal.NodeShadow(shadow))
	}
	if vpc := store.GetVPC(b.tx, b.in.DefaultVPC); vpc != nil {
		s.DefaultVPC = harmless(vpc.Prefixes, b.reserved)
	}
	return s
}

// sort brings every list into the order of its keys, each key once.
func (b *nodeBuilder) sort() {
	slices.SortFunc(b.part.Closed, func(a, b datapath.ClosedPrefix) int { return a.Prefix.Compare(b.Prefix) })
	b.part.Services = sortServices(b.part.Services)
	slices.SortFunc(b.part.Probes, func(a, b datapath.ProbeTarget) int { return a.IP.Compare(b.IP) })
	slices.SortFunc(b.part.Hooks, func(a, b datapath.HookTarget) int { return a.IP.Compare(b.IP) })
	slices.SortFunc(b.part.Namespaces, func(a, b datapath.Namespace) int { return cmp.Compare(a.Cookie, b.Cookie) })
}

// sortServices orders services by their keys. Two of one key can't be, but while one
// takes the address of another that is gone.
func sortServices(list []datapath.Service) []datapath.Service {
	slices.SortStableFunc(list, compareServices)
	return slices.CompactFunc(list, func(a, b datapath.Service) bool { return compareServices(a, b) == 0 })
}

func compareServices(a, b datapath.Service) int {
	return cmp.Or(cmp.Compare(a.VNI, b.VNI), a.VIP.Compare(b.VIP), cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Port, b.Port))
}

// parts are the node's own, those of the VPCs that are present, and their services.
func parts(node *datapath.State, vpcs map[string]*vpcPlan, services map[uint32][]*datapath.VirtualAddress) datapath.Parts {
	all := datapath.Parts{VPCs: map[uint32]*datapath.State{0: node}, Services: services}
	for v := range maps.Values(vpcs) {
		if v.part != nil {
			all.VPCs[v.here.vni] = v.part
		}
	}
	return all
}
