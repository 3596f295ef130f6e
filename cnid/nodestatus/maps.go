// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"net/netip"
	"time"
)

// Maps are the rows of a node's BPF maps. The order of the lists has no meaning. VNI 0
// stands for what belongs to no VPC alone. Fields may be added.
type Maps struct {
	Interfaces []Interface `json:"interfaces"`
	Addresses  []Address   `json:"addresses"`
	Subnets    []Subnet    `json:"subnets"`
	VPCs       []VPC       `json:"vpcs"`
	// Nodes are the underlay addresses from which tunnel packets are accepted.
	Nodes     []netip.Addr `json:"nodes"`
	NodePorts []NodePort   `json:"nodePorts"`
	// Announced are external addresses for which the node answers.
	Announced  []netip.Addr   `json:"announced"`
	Closed     []ClosedPrefix `json:"closed"`
	Services   []Service      `json:"services"`
	Probes     []Target       `json:"probes"`
	Hooks      []Target       `json:"hooks"`
	Namespaces []Namespace    `json:"namespaces"`
}

// MAC is an Ethernet address, in JSON a list of six numbers.
type MAC [6]byte

// Interface is a device with programs: the host end of a pod's interface, or the
// node's own interface in the default VPC.
type Interface struct {
	Ifindex  int          `json:"ifindex"`
	VNI      uint32       `json:"vni"`
	Addrs    []netip.Addr `json:"addrs"`
	MAC      MAC          `json:"mac"`
	Shadow4  netip.Addr   `json:"shadow4"`
	Shadow6  netip.Addr   `json:"shadow6"`
	Gateway4 netip.Addr   `json:"gateway4"`
	Gateway6 netip.Addr   `json:"gateway6"`
	// Node: the interface is the node's own. Netkit: the device is one of a netkit pair.
	Node   bool `json:"node"`
	Netkit bool `json:"netkit"`
}

// Address is an address of a VPC.
type Address struct {
	VNI uint32     `json:"vni"`
	IP  netip.Addr `json:"ip"`
	// Kind is 1 for an address of an interface of the node, 2 for one that another node
	// holds, 3 for a gateway.
	Kind    uint8      `json:"kind"`
	Ifindex int        `json:"ifindex"`
	Node    netip.Addr `json:"node"`
	MAC     MAC        `json:"mac"`
}

// Subnet is a range of a VPC.
type Subnet struct {
	VNI    uint32       `json:"vni"`
	Prefix netip.Prefix `json:"prefix"`
}

// VPC is a VPC that is present on the node.
type VPC struct {
	VNI              uint32         `json:"vni"`
	Prefixes         []netip.Prefix `json:"prefixes"`
	EgressMasquerade bool           `json:"egressMasquerade"`
	Fronted          bool           `json:"fronted"`
	Default          bool           `json:"default"`
}

// NodePort is a port at which every node takes what is for a Service of a VPC.
type NodePort struct {
	VNI uint32 `json:"vni"`
	// Proto is an IP protocol number.
	Proto uint8  `json:"proto"`
	Port  uint16 `json:"port"`
	Is4   bool   `json:"is4"`
}

// ClosedPrefix is an entry of the list of destinations for egress.
type ClosedPrefix struct {
	VNI    uint32       `json:"vni"`
	Prefix netip.Prefix `json:"prefix"`
	// Class is the number of the reason, as in the map.
	Class uint8 `json:"class"`
}

// Service is a virtual address and port with its backends.
type Service struct {
	VNI  uint32     `json:"vni"`
	VIP  netip.Addr `json:"vip"`
	Port uint16     `json:"port"`
	// Proto is an IP protocol number.
	Proto    uint8     `json:"proto"`
	Backends []Backend `json:"backends"`
	// Affinity is for how long a client keeps its backend; 0: for no time.
	Affinity time.Duration `json:"affinity"`
}

// Backend is one receiver of a Service's flows.
type Backend struct {
	IP   netip.Addr `json:"ip"`
	Port uint16     `json:"port"`
	// Outside: the address is none of the VPC.
	Outside bool `json:"outside"`
}

// Target is an address that the kubelet calls, and the pod's address on the node to
// which its connects go; the zero value refuses them.
type Target struct {
	IP     netip.Addr `json:"ip"`
	Shadow netip.Addr `json:"shadow"`
}

// Namespace is a network namespace with interfaces in VPCs.
type Namespace struct {
	Cookie      uint64       `json:"cookie"`
	Shared      bool         `json:"shared"`
	Memberships []Membership `json:"memberships"`
}

// Membership is an interface of a Namespace in a VPC.
type Membership struct {
	VNI     uint32       `json:"vni"`
	Addrs   []netip.Addr `json:"addrs"`
	Ifindex int          `json:"ifindex"`
}

// Programs are the places where the node's programs are attached.
type Programs struct {
	Filters []Filter `json:"filters"`
	// Links are names of pinned links.
	Links []string `json:"links"`
}

// Filter is one program on one device. Program is its name in the kernel.
type Filter struct {
	Ifindex int    `json:"ifindex"`
	Program string `json:"program"`
}
