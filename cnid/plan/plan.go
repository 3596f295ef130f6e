// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan says what a node has to hold: from a snapshot of the store and
// the attachments in the journal it computes the states of the datapath, the
// devices and the packet filter. It is pure: it reads no clock, no kernel and
// no API, and the same input gives the same output, sorted.
//
// A node holds state for the VPCs that have an attachment on it, and for the
// default VPC once the node has an address of its own there.
package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
)

// ServiceRef names a Service.
type ServiceRef struct {
	Namespace, Name string
}

// String returns the reference in the form namespace/name.
func (r ServiceRef) String() string { return r.Namespace + "/" + r.Name }

// ParseServiceRef reads a reference in the form namespace/name.
func ParseServiceRef(text string) (ServiceRef, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return ServiceRef{}, fmt.Errorf("service %q: want namespace/name", text)
	}
	return ServiceRef{Namespace: namespace, Name: name}, nil
}

// Config is what does not change while a daemon runs.
type Config struct {
	// Node is the name of this node.
	Node string
	// DefaultVPC is the name of the default VPC.
	DefaultVPC string
	// Shadows are the ranges of shadow addresses, at most one per family.
	Shadows []netip.Prefix
	// ServiceRanges are the cluster's service ranges.
	ServiceRanges []netip.Prefix
	// SharedServices are those that every VPC reaches, beside those that
	// SharedService objects name.
	SharedServices []ServiceRef
	// APIServer is the Service whose backends the node itself must reach under
	// their real addresses.
	APIServer ServiceRef
	// Reserved are further addresses that the node itself must reach.
	Reserved []netip.Addr
	// Metadata are the addresses of cloud metadata services, closed to every VPC
	// that does not list them by themselves.
	Metadata []netip.Addr
	// TunnelPort is the UDP port of VXLAN.
	TunnelPort uint16
	// FlowsPerShadow is netfilter.State.FlowsPerShadow.
	FlowsPerShadow uint32
	// NetnsCookie is that of the node's own network namespace; 0: unknown, and it is
	// left out.
	NetnsCookie uint64
}

// Input is what a plan is made of, beside the store.
type Input struct {
	Config
	// Records are all records of the journal, the oldest first.
	Records []journal.Record
	// Devices are the indexes of the host ends that exist, by name. A record
	// whose device has gone is left out until it is undone.
	Devices map[string]int
	// NodePeer is the index of netdev.NodePeerDevice.
	NodePeer int
}

// Wanted is what the node has to hold.
type Wanted struct {
	Datapath datapath.State
	Devices  netdev.State
	Filter   netfilter.State
	// Lost are the attachments that are left out of it all. Without an interface
	// of the datapath nothing goes in or out by them.
	Lost []Lost
}

// Lost is an attachment that the API has nothing for any more.
type Lost struct {
	Record journal.Record
	// Reason says for a person what happened.
	Reason string
}

// Build computes what the node has to hold.
func Build(tx store.ReadTx, in Input) Wanted {
	b := &builder{
		tx: tx, in: in, self: store.GetNode(tx, in.Node), reserved: ReservedAddresses(tx, in.Config),
		vpcs: map[uint32]*localVPC{},
	}
	b.chooseLive()
	b.attachments()
	b.nodeInterface()
	b.addVPCs()
	b.nodes()
	b.closed()
	b.services()
	b.namespaces()
	b.probes()
	b.filter()
	return b.sorted()
}

// localVPC is a VPC that is present on this node.
type localVPC struct {
	row *store.VPC
	// ranges are the subnets of the attachments here.
	ranges []netip.Prefix
}

// builder collects the parts; its methods are called once each.
type builder struct {
	tx   store.ReadTx
	in   Input
	self *store.Node
	// reserved are what ReservedAddresses returns.
	reserved []netip.Addr
	// live are the records to be programmed, in the order in which they came.
	live []journal.Record
	// vpcs by VNI.
	vpcs map[uint32]*localVPC
	want Wanted
	// addresses by VNI and IP, so that an address is programmed once.
	addresses map[addressKey]datapath.Address
}

type addressKey struct {
	vni uint32
	ip  netip.Addr
}

// Programmed is what the datapath has of an attachment: its interface, and its
// addresses.
func Programmed(rec journal.Record) datapath.State {
	iface := datapath.Interface{
		Ifindex: rec.Device.HostIfindex, VNI: rec.VNI, MAC: datapath.MAC(rec.MAC),
		Shadow4: rec.Shadow4, Shadow6: rec.Shadow6,
	}
	iface.Gateway4, iface.Gateway6 = onePerFamily(rec.Gateways)
	var state datapath.State
	for _, prefix := range rec.Addrs {
		iface.Addrs = append(iface.Addrs, prefix.Addr())
		state.Addresses = append(state.Addresses, localAddress(prefix.Addr(), iface))
	}
	state.Interfaces = []datapath.Interface{iface}
	return state
}

// onePerFamily returns the first address of each family.
func onePerFamily(ips []netip.Addr) (v4, v6 netip.Addr) {
	for _, ip := range ips {
		switch {
		case ip.Is4() && !v4.IsValid():
			v4 = ip
		case ip.Is6() && !v6.IsValid():
			v6 = ip
		}
	}
	return v4, v6
}

func localAddress(ip netip.Addr, iface datapath.Interface) datapath.Address {
	return datapath.Address{VNI: iface.VNI, IP: ip, Kind: datapath.Local, Ifindex: iface.Ifindex, MAC: iface.MAC}
}

// attachments adds the interfaces and local addresses of the journal's
// records. The journal, not the store, says what is here.
func (b *builder) attachments() {
	b.addresses = map[addressKey]datapath.Address{}
	for _, rec := range b.live {
		vpc := b.present(store.GetVPC(b.tx, rec.VPC))
		for _, prefix := range rec.Addrs {
			vpc.ranges = append(vpc.ranges, prefix.Masked())
		}
		one := Programmed(rec)
		for _, row := range one.Addresses {
			b.addresses[addressKey{row.VNI, row.IP}] = row
		}
		b.want.Datapath.Interfaces = append(b.want.Datapath.Interfaces, one.Interfaces...)
		b.want.Devices.Pods = append(b.want.Devices.Pods, netdev.Pod{
			Device: rec.HostIfName, Ifindex: rec.Device.HostIfindex, Shadows: shadowsOf(rec),
			MTU: rec.MTU, MAC: datapath.VirtualMAC, Loopback: onLoopback(rec),
		})
	}
}

func shadowsOf(rec journal.Record) []netip.Addr {
	var list []netip.Addr
	for _, shadow := range []netip.Addr{rec.Shadow4, rec.Shadow6} {
		if shadow.IsValid() {
			list = append(list, shadow)
		}
	}
	return list
}

// nodeInterface adds the node's own interface in the default VPC, if the VPC
// is ready and has given it an address.
func (b *builder) nodeInterface() {
	for _, shadow := range b.in.Shadows {
		b.want.Devices.Shadows = append(b.want.Devices.Shadows, journal.NodeShadow(shadow))
	}
	vpc := store.GetVPC(b.tx, b.in.DefaultVPC)
	if vpc == nil || vpc.VNI == 0 {
		return
	}
	iface := datapath.Interface{Ifindex: b.in.NodePeer, VNI: vpc.VNI, Node: true}
	var gateways []netip.Addr
	for _, row := range OwnAddresses(b.tx, b.in.Node, b.in.DefaultVPC) {
		mac, err := journal.ParseMAC(row.MAC)
		if err != nil || slices.Contains(b.reserved, row.IP) {
			continue // the schema allows no other MAC; the IP is in use
		}
		iface.MAC, iface.Addrs = datapath.MAC(mac), append(iface.Addrs, row.IP)
		if subnet := store.GetSubnet(b.tx, row.Subnet); subnet != nil {
			gateways = append(gateways, gatewayFor(subnet, row.IP))
		}
	}
	iface.Gateway4, iface.Gateway6 = onePerFamily(gateways)
	if len(iface.Addrs) == 0 {
		return
	}
	b.present(vpc)
	for _, ip := range iface.Addrs {
		b.addresses[addressKey{vpc.VNI, ip}] = localAddress(ip, iface)
	}
	b.want.Datapath.Interfaces = append(b.want.Datapath.Interfaces, iface)
	b.want.Devices.Node = netdev.NodeInterface{Addrs: iface.Addrs, MAC: [6]byte(iface.MAC), Prefixes: b.harmless(vpc.Prefixes)}
}

// gatewayFor returns the subnet's gateway of an address's family, or the zero
// value.
func gatewayFor(subnet *store.Subnet, ip netip.Addr) netip.Addr {
	at := slices.IndexFunc(subnet.Gateways, func(gateway netip.Addr) bool { return gateway.Is4() == ip.Is4() })
	if at < 0 {
		return netip.Addr{}
	}
	return subnet.Gateways[at]
}

// OwnAddresses returns the Addresses that a node holds for itself in the
// default VPC, at most one per family, IPv4 first.
func OwnAddresses(tx store.ReadTx, node, defaultVPC string) []*store.Address {
	var own []*store.Address
	for _, row := range store.AddressesByNode(tx, node) {
		mine := row.Holder.Kind == store.HolderNode && row.Holder.Name == node && row.VPC == defaultVPC && !row.Deleting
		if mine {
			own = append(own, row)
		}
	}
	slices.SortFunc(own, func(a, b *store.Address) int {
		return cmp.Or(a.Created.Compare(b.Created), a.IP.Compare(b.IP))
	})
	var list []*store.Address
	for _, is4 := range []bool{true, false} {
		at := slices.IndexFunc(own, func(row *store.Address) bool { return row.IP.Is4() == is4 })
		if at >= 0 {
			list = append(list, own[at])
		}
	}
	return list
}

// harmless leaves out the prefixes that contain an address which the node must
// reach, or be reached under, by its real meaning. To route or guard one of
// those would cut the node off from the API server, and so from its repair. The
// operator says so on the VPC, in which it then hands out nothing.
func (b *builder) harmless(prefixes []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool { return slices.ContainsFunc(b.reserved, p.Contains) })
}

func (b *builder) filter() {
	b.want.Filter = netfilter.State{
		Shadows:       b.in.Shadows,
		TunnelPort:    b.in.TunnelPort,
		PodDevices:    netdev.PodDevices,
		NodeDevice:    netdev.NodeDevice,
		SealedDevices: []string{netdev.TunnelDevice, netdev.NodePeerDevice, netdev.FragmentPeerDevice},
		MarkMask:      datapath.MarkMask, SharedMark: datapath.MarkShared, EgressMark: datapath.MarkEgress, NodeMark: datapath.MarkNode,
		FlowsPerShadow: b.in.FlowsPerShadow, HostPorts: b.hostPorts(),
	}
	if self := store.GetNode(b.tx, b.in.Node); self != nil {
		b.want.Filter.Pods = self.Pods
	}
	for _, shadow := range b.in.Shadows {
		b.want.Filter.NodeShadows = append(b.want.Filter.NodeShadows, journal.NodeShadow(shadow))
	}
	if vpc := store.GetVPC(b.tx, b.in.DefaultVPC); vpc != nil {
		b.want.Filter.DefaultVPC = b.harmless(vpc.Prefixes)
	}
}
