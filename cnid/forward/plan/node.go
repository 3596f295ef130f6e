// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// nodePlan holds the wanted state of a node beside its VPCs and Services. It is never changed:
// another nodePlan takes its place.
type nodePlan struct {
	part    *state.State
	devices hostdev.State
	// filter has no Frontends.
	filter ruleset.State
	// closed are ports of the node that lead to no pod, though one asks for them.
	closed []ClosedPort
	lost   []Lost
}

// nodeBuilder plans the state that belongs to the node and not to one VPC. Each of nodeParts
// replaces its own fields of the last plan.
type nodeBuilder struct {
	tx store.ReadTx
	in Input
	// vpcs by name.
	vpcs    map[string]*vpcPlan
	domains domains
	// live are the records to be programmed, the oldest first.
	live []journal.Record
	part state.State
	plan nodePlan
}

// newNodeBuilder begins with the last plan, if there is one, and with what the VPCs have
// here.
func newNodeBuilder(tx store.ReadTx, in Input, vpcs map[string]*vpcPlan, outside domains, last *nodePlan) *nodeBuilder {
	b := &nodeBuilder{tx: tx, in: in, vpcs: vpcs, domains: outside}
	if last != nil {
		b.plan, b.part = *last, *last.part
	}
	b.plan.lost = nil
	for _, v := range vpcs {
		b.live = append(b.live, v.here.live...)
		b.plan.lost = append(b.plan.lost, v.here.lost...)
	}
	slices.SortFunc(b.live, func(a, b journal.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortFunc(b.plan.lost, func(a, b Lost) int {
		return cmp.Compare(a.Record.Device.HostIfindex, b.Record.Device.HostIfindex)
	})
	return b
}

// result is a copy: a pointer into b would keep the whole snapshot of the store.
func (b *nodeBuilder) result() *nodePlan {
	plan, part := b.plan, b.part
	plan.part = &part
	return &plan
}

// nodes adds the addresses of this node, and the permitted sources of tunnel packets. This
// node's own addresses are not permitted: no other host may use them as source.
func (b *nodeBuilder) nodes() {
	var own, others []netip.Addr
	for _, row := range store.ListNodes(b.tx) {
		if row.Name == b.in.Node {
			own = append(own, row.Addresses...)
			continue
		}
		others = append(others, row.Addresses...)
	}
	b.part.Own = unique(own)
	b.part.Nodes = unique(slices.DeleteFunc(others, func(ip netip.Addr) bool { return slices.Contains(own, ip) }))
}

// announced adds the external addresses that this node has been chosen for.
func (b *nodeBuilder) announced() {
	b.part.Announced = nil
	for _, row := range external.ListAddresses(b.tx) {
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
func (b *nodeBuilder) devices() {
	var s hostdev.State
	for _, shadow := range b.in.Shadows {
		s.Shadows = append(s.Shadows, journal.NodeShadow(shadow))
	}
	if home := b.vpcs[b.in.DefaultVPC]; home != nil {
		s.Node = home.here.node
	}
	for _, rec := range b.live {
		s.Pods = append(s.Pods, hostdev.Pod{
			Device: rec.HostIfName, Ifindex: rec.Device.HostIfindex, Shadows: shadowsOf(rec),
			MTU: rec.MTU, MAC: state.VirtualMAC, Loopback: b.onLoopback(rec),
		})
	}
	slices.SortFunc(s.Pods, func(a, b hostdev.Pod) int { return cmp.Compare(a.Ifindex, b.Ifindex) })
	b.plan.devices = s
}

// filter plans the state of the packet filter, except for the ports of the node and Services.
func (b *nodeBuilder) filter() {
	s := ruleset.State{
		Shadows:       b.in.Shadows,
		TunnelPort:    b.in.TunnelPort,
		PodGroup:      hostdev.PodGroup,
		PodKinds:      hostdev.PodKinds,
		NodeDevice:    hostdev.Node,
		SealedDevices: []string{hostdev.Tunnel, hostdev.NodePeer, hostdev.FragmentPeer},
		MarkMask:      state.MarkMask, SharedMark: state.MarkShared, EgressMark: state.MarkEgress, NodeMark: state.MarkNode,
		OpeningMark: state.MarkOpening, TunneledMark: state.MarkTunneled,
		FlowsPerShadow: b.in.FlowsPerShadow, HostPorts: b.plan.filter.HostPorts,
	}
	if self := store.GetNode(b.tx, b.in.Node); self != nil {
		s.Addresses = unique(addressesOf(self))
	}
	for _, shadow := range b.in.Shadows {
		s.NodeShadows = append(s.NodeShadows, journal.NodeShadow(shadow))
	}
	if vpc := store.GetVPC(b.tx, b.in.DefaultVPC); vpc != nil {
		s.DefaultVPC = harmless(b.tx, b.in.Config, vpc)
	}
	b.plan.filter = s
}

// needed are the addresses without which the node can't be repaired: its own, which its own
// kubelet reports, and the API server's, by its endpoints and by configuration.
func needed(tx store.ReadTx, cfg Config) []netip.Addr {
	list := apiServerAddresses(tx, cfg)
	if self := store.GetNode(tx, cfg.Node); self != nil {
		list = append(list, addressesOf(self)...)
	}
	return list
}

func apiServerAddresses(tx store.ReadTx, cfg Config) []netip.Addr {
	list := slices.Clone(cfg.Reserved)
	for _, slice := range store.EndpointSlicesByService(tx, cfg.APIServer.Namespace, cfg.APIServer.Name) {
		for _, endpoint := range slice.Endpoints {
			list = append(list, endpoint.Addresses...)
		}
	}
	// A node that follows no slices has all of them in the Service's verdict.
	for _, row := range scaled.ByService(tx, cfg.APIServer.Namespace, cfg.APIServer.Name) {
		for i := range row.Backends {
			list = append(list, row.Backends[i].IP)
		}
	}
	return list
}

func addressesOf(nodes ...*store.Node) []netip.Addr {
	var list []netip.Addr
	for _, node := range nodes {
		list = append(append(list, node.Addresses...), node.AllAddresses...)
	}
	return list
}
