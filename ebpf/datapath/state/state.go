// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"net"
	"net/netip"
	"strconv"
)

// State is the complete wanted state of the datapath of one node. It is declarative:
// Apply makes the maps and attachments equal to it, and a State given twice changes
// nothing the second time. The order of the slices has no meaning.
type State struct {
	Interfaces []Interface
	Addresses  []Address
	Subnets    []Subnet
	VPCs       []VPC
	// Roles are the bouncers and dividers that this node knows of.
	Roles []Role
	// Nodes are the underlay addresses that may send tunnel packets, and that are closed to
	// tenants' egress.
	Nodes []netip.Addr
	// Own are the addresses of this node in the cluster: no other host may send from
	// them, and no pod's interface on the node's network.
	Own []netip.Addr
	// NodePorts are the node ports of services of VPCs. A pod's packet to a node's address at a
	// port of its own VPC may leave, if the VPC's egress allows that address.
	NodePorts []NodePort
	// Announced are external addresses. This node answers ARP and neighbour discovery for them on
	// its network, see Config.UnderlayMAC.
	Announced []netip.Addr
	Closed    []ClosedPrefix
	Services  []Service
	Probes    []ProbeTarget
	Hooks     []HookTarget
	// Namespaces are the namespaces of pods and of the node.
	Namespaces []Namespace
}

// MAC is an Ethernet address. A plain [6]byte can be assigned to it.
type MAC [6]byte

// String returns the address in its usual hexadecimal form.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// VirtualMAC is the Ethernet address that every pod sees for its gateway and
// for all its neighbours. The host end of each pod's pair carries it too, so
// that a frame which a program passes to the host stack is addressed to the
// host.
var VirtualMAC = MAC{0x02, 0xa1, 0x07, 0x00, 0x00, 0x01}

// Interface is the host end of one pod interface, or the node's own interface
// in the default VPC.
type Interface struct {
	// Ifindex is the index, in the node's network namespace, of the device
	// that gets the programs: the host end of a pod's pair, or for the node's
	// own interface the far end of its pair, which lies in the same namespace.
	Ifindex int
	// VNI is the VPC of the interface, 1 to 1<<24-1.
	VNI uint32
	// Addrs are the interface's own addresses in the VPC, at most one per
	// family and at least one. They are the only sources it may use.
	Addrs []netip.Addr
	// MAC is the address of the pod's end, the only source it may use.
	MAC MAC
	// Shadow4 and Shadow6 are unique on the node. A family without an address
	// in Addrs has no shadow; Node interfaces have none at all.
	Shadow4, Shadow6 netip.Addr
	// Gateway4 and Gateway6 are the gateways of the interface's subnet, and the source of ICMP
	// errors about packets that are too big. Without a gateway no error is sent.
	Gateway4, Gateway6 netip.Addr
	// Node marks the node's own interface in the default VPC: it has no shadow address
	// and no peer in another namespace, so packets are redirected to its egress instead
	// of to a peer, and it has no program for traffic of the host stack.
	Node bool
	// Netkit reports that the device is the primary one of a netkit pair, not a veth.
	Netkit bool
	// Identity is the number of the pod's label set in its VPC, below 1<<24; 0: not known.
	Identity uint32
	// SendsIdentity reports that packets to other nodes have the identity, also if it is 0.
	// Programs of releases without identities do not read such packets' class.
	SendsIdentity bool
}

// AddressKind is the kind of place of an address of a VPC.
type AddressKind uint8

// Kinds of Address.
const (
	// Local is an address of an interface of this node.
	Local = AddressKind(1)
	// Remote is an address that another node holds.
	Remote = AddressKind(2)
	// Gateway is an address that the datapath itself answers, on every node.
	Gateway = AddressKind(3)
	// HeldOutside is an address of an interface that another CNI plugin has made, on any
	// node: the datapath does not lead to it.
	HeldOutside = AddressKind(4)
)

// Address is one row of the address table of a VPC.
type Address struct {
	VNI  uint32
	IP   netip.Addr
	Kind AddressKind
	// Ifindex is the interface of a Local address, otherwise 0.
	Ifindex int
	// Node is the underlay address of the node that holds a Remote address,
	// otherwise the zero value.
	Node netip.Addr
	// MAC is the Ethernet address of the pod's end for Local and Remote.
	MAC MAC
}

// Subnet is a range of a VPC.
type Subnet struct {
	VNI    uint32
	Prefix netip.Prefix
	// Role is the ID, within the VNI, of the role of the subnet's bouncers; 0: all
	// existing addresses of the range are in the address table of this node.
	Role uint32
}

// VPC is a VPC that is present on this node.
type VPC struct {
	VNI uint32
	// Prefixes are all ranges of the VPC; packets to them never leave it.
	Prefixes []netip.Prefix
	// EgressMasquerade lets the VPC's pods open flows to the outside.
	EgressMasquerade bool
	// Fronted lets the VPC's pods reply to clients outside that have reached them from
	// their own addresses, if the host's connection tracking has the flow. It applies
	// even where egress is closed, except to destinations that belong to the cluster.
	Fronted bool
	// Default marks the default VPC. It alone may reach nodes, and this node has an address of
	// its own in it.
	Default bool
	// Role is the ID, within the VNI, of the role of the VPC's dividers; 0: all of the
	// VPC's subnets are in the State.
	Role uint32
}

// ClosedClass is the reason why a destination is closed to egress. Each class has its
// own drop reason.
type ClosedClass uint8

// Classes of ClosedPrefix.
const (
	// ClosedShadow is the range of shadow addresses.
	ClosedShadow = ClosedClass(1)
	// ClosedNode is an address of a known node; the default VPC may reach it.
	ClosedNode = ClosedClass(2)
	// ClosedDefaultVPC is a range of the default VPC.
	ClosedDefaultVPC = ClosedClass(3)
	// ClosedService is a service range of the cluster.
	ClosedService = ClosedClass(4)
	// ClosedLinkLocal is link-local space.
	ClosedLinkLocal = ClosedClass(5)
	// ClosedMulticast is multicast and broadcast space.
	ClosedMulticast = ClosedClass(6)
	// ClosedDenied is a range on the VPC's own list of denied destinations.
	ClosedDenied = ClosedClass(7)
	// ClosedUnlisted are destinations that a VPC's list of allowed ones does not have;
	// longer prefixes of OpenListed make the exceptions.
	ClosedUnlisted = ClosedClass(8)
	// ClosedMetadata is a cloud's metadata address, closed to every VPC that
	// has no OpenMetadata of the same prefix.
	ClosedMetadata = ClosedClass(9)
	// OpenListed and OpenMetadata belong to one VPC and close nothing.
	OpenListed   = ClosedClass(10)
	OpenMetadata = ClosedClass(11)
	// ClosedBalancer is an address of a load balancer, which leads to nodes; the
	// default VPC may reach it.
	ClosedBalancer = ClosedClass(12)
)

// String describes in words the meaning of a range for egress.
func (c ClosedClass) String() string {
	switch c {
	case ClosedShadow:
		return "shadow addresses"
	case ClosedNode:
		return "a node's address"
	case ClosedBalancer:
		return "a load balancer's address"
	case ClosedDefaultVPC:
		return "the default VPC"
	case ClosedService:
		return "services"
	case ClosedLinkLocal:
		return "link-local"
	case ClosedMulticast:
		return "multicast and reserved"
	case ClosedDenied:
		return "denied by the VPC"
	case ClosedUnlisted:
		return "not on the VPC's list"
	case ClosedMetadata:
		return "cloud metadata"
	case OpenListed:
		return "open: on the VPC's list"
	case OpenMetadata:
		return "open: the VPC may have cloud metadata"
	}
	return "closed class " + strconv.Itoa(int(c))
}

// ClosedPrefix is a destination that egress must not reach. Of the entries of one VNI the longest
// prefix decides. An entry for every VPC comes before entries of the packet's own VPC. A range of
// IPv6 that contains the IPv4-mapped range needs an entry of the same VNI for all of IPv4 beside
// it.
type ClosedPrefix struct {
	// VNI limits the entry to one VPC; 0 means every VPC.
	VNI    uint32
	Prefix netip.Prefix
	Class  ClosedClass
}

// ProbeTarget is a pod address that the kubelet probes. A TCP connect of the kubelet, see
// Config.KubeletPort, to any port of IP goes to Shadow instead if its socket lingers for 1 s, as
// the sockets of probes do. With the zero Shadow the connect is refused (ECONNREFUSED).
type ProbeTarget struct {
	IP, Shadow netip.Addr
}

// HookTarget is an address of a pod with a lifecycle hook that the kubelet calls over
// the network. The kubelet's connects that don't linger go to Shadow, whatever their
// port is: the hook's response may redirect the kubelet to another port of the same
// address.
type HookTarget struct {
	IP, Shadow netip.Addr
}
