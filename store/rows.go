// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"time"
)

// Meta is what every row keeps of its API object.
type Meta struct {
	UID             string
	ResourceVersion string
	// Generation of the spec, for status.observedGeneration.
	Generation int64
	Created    time.Time
	// Deleting is true once the object has a deletion timestamp.
	Deleting bool
	// Finalizer is true while the object carries Alioth's finalizer.
	Finalizer bool
}

// VPC is the row of a VPC object. Key: Name.
type VPC struct {
	Meta
	Name           string
	Prefixes       []netip.Prefix
	AllowedTenants []string
	// EgressMasquerade is spec.egress == Masquerade.
	EgressMasquerade bool
	// EgressAllow, if there are any, are the only destinations of egress;
	// EgressDeny are none, whatever EgressAllow says.
	EgressAllow, EgressDeny []netip.Prefix
	// WantVNI is spec.vni, or 0.
	WantVNI uint32
	// VNI is status.vni: the claimed one, or 0. Unique among VPCs.
	VNI uint32
	// Ready is the status of the Ready condition.
	Ready bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

// Subnet is the row of a Subnet object. Key: Name.
type Subnet struct {
	Meta
	Name string
	// VPC is the name of the VPC, which need not exist.
	VPC string
	// ShortName is spec.name, or the object's name where that is empty.
	ShortName string
	// Prefixes, at most one per family.
	Prefixes []netip.Prefix
	// Gateways, one per family of Prefixes, defaults filled in.
	Gateways []netip.Addr
	// Reserved ranges, both ends included.
	Reserved []AddrRange
	// ForServices: its addresses are those of load balancers, not of pods.
	ForServices bool
	// Cursors are the last addresses handed out by choice, at most one per
	// family.
	Cursors []netip.Addr
	Ready   bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

// AddrRange is a range of addresses of one family, both ends included.
type AddrRange struct{ First, Last netip.Addr }

// Network is the row of a Network object. Key: (Namespace, Name).
type Network struct {
	Meta
	Namespace, Name string
	// Tenant that owns the namespace; kept up to date with Namespace rows.
	Tenant string
	Type   string
	// VPC is spec.vpcID, which need not exist.
	VPC   string
	Ready bool
	// Reason and Message of the Ready condition.
	Reason, Message string
	// NameConflict is the message of that condition, "" without one.
	NameConflict string
}

// HolderKind says what holds an address.
type HolderKind string

// The kinds of holder, spelled as in the API.
const (
	HolderPod     HolderKind = "Pod"
	HolderNode    HolderKind = "Node"
	HolderService HolderKind = "Service"
)

// Holder is who an address belongs to.
type Holder struct {
	Kind      HolderKind
	Namespace string
	Name      string
	UID       string
}

// Address is the row of an Address object. Key: Name; (VPC, IP) is unique.
type Address struct {
	Meta
	Name string
	VPC  string
	// Subnet is the name of the Subnet object.
	Subnet string
	IP     netip.Addr
	// MAC, lower case with colons.
	MAC string
	// Node, MAC and Attachment are "" where the holder is a Service.
	Node       string
	Holder     Holder
	Attachment string
	// Set lists all addresses of the same attachment, IP included.
	Set []netip.Addr
}

// VNIClaim is the row of a VNIClaim object. Key: VNI.
type VNIClaim struct {
	Meta
	VNI    uint32
	VPC    string
	VPCUID string
}

// RollCall is the row of a RollCall object. Key: Name.
type RollCall struct {
	Meta
	Name string
	Call string
	// VNIs that a node says it holds.
	VNIs []uint32
	// NodeUID is the UID of the Node that owns the object, or "".
	NodeUID string
}

// Namespace is the row of a Namespace object. Key: Name.
type Namespace struct {
	Meta
	Name   string
	Tenant string
}

// Node is the row of a Node object. Key: Name.
type Node struct {
	Meta
	Name string
	// Addresses are the node's InternalIPs, in the order of its status.
	Addresses []netip.Addr
	// Zone is the value of its label topology.kubernetes.io/zone, or "".
	Zone string
	// AllAddresses are its addresses of every kind.
	AllAddresses []netip.Addr
	// Pods is how many pods the node's kubelet takes; 0: it has not said.
	Pods uint32
	// KubeletPort is the TCP port at which the node's kubelet listens; 0: it has not
	// said.
	KubeletPort uint16
	// Ready is the status of the node's Ready condition.
	Ready bool
	// OutOfService is true while the node has the taint
	// node.kubernetes.io/out-of-service: somebody vouches that nothing runs
	// there any more.
	OutOfService bool
	// NoBalancers is true while the node has the label
	// node.kubernetes.io/exclude-from-external-load-balancers.
	NoBalancers bool
	// Leaving is true while the node has the taint ToBeDeletedByClusterAutoscaler.
	Leaving bool
}

// HostPod is the row of a Pod object on the network of its node, of which Alioth knows
// no more than that it is there. Key: UID.
type HostPod struct {
	Meta
	Namespace, Name string
	// Node that the pod is bound to, or "".
	Node string
	// Terminal is true when the phase is Succeeded or Failed.
	Terminal bool
}

// Pod is the row of a Pod object that is not on the host network. Key: UID.
type Pod struct {
	Meta
	Namespace, Name string
	// Tenant that owns the namespace; kept up to date with Namespace rows.
	Tenant string
	// OwnerUID is the UID of the controller that made the pod, or "".
	OwnerUID string
	// Node that the pod is bound to, or "".
	Node string
	// Network is the value of the network label, or "".
	Network string
	// NIC is the text of the nic annotation.
	NIC string
	// Attachments is the text of the attachments annotation.
	Attachments string
	// IPs are those that the kubelet says the pod has. They are kept as long as the
	// pod was told none, and say then with which ones a sandbox of it ran.
	IPs []netip.Addr
	// NetworkReady is true when the readiness annotation says "true".
	NetworkReady bool
	// Reason and Message of the operator's pod condition NetworkReady.
	Reason, Message string
	// Terminal is true when the phase is Succeeded or Failed.
	Terminal bool
	// NetworkProbes is true when the kubelet probes the pod over the network
	// (HTTP, TCP or gRPC), or runs an httpGet or tcpSocket hook.
	NetworkProbes bool
	// ProbeTimeout is the longest that such a probe may take; 0 without one.
	ProbeTimeout time.Duration
	// NetworkHooks is true when it runs an httpGet or tcpSocket life-cycle hook.
	NetworkHooks bool
	// ProbeHost is the host that a probe or hook names in the place of the pod's own
	// address, "" when none does.
	ProbeHost string
	// HostPorts are the node's ports that the pod asks for, each once.
	HostPorts []HostPort
}

// HostPort is a port of the node that is to lead to a port of a pod.
type HostPort struct {
	// Protocol is TCP, UDP or SCTP.
	Protocol string
	// HostIP is the address of the node; the zero value for all of them.
	HostIP netip.Addr
	// HostPort and Port are the node's and the pod's, 1 to 65535.
	HostPort, Port uint16
}

// ServiceCIDR is the row of a ServiceCIDR: ranges out of which ClusterIPs are. Key:
// Name.
type ServiceCIDR struct {
	Meta
	Name     string
	Prefixes []netip.Prefix
}

// Service is the row of a Service. Key: (Namespace, Name).
type Service struct {
	Meta
	Namespace, Name string
	// Network is the value of the network label, or "".
	Network string
	// OtherProxy says that the Service asks for another proxy than the cluster's own. It
	// then has no ClusterIPs and no ExternalIPs here, and is no load balancer.
	OtherProxy bool
	// ClusterIPs are none for a headless Service and for one of type ExternalName.
	ClusterIPs []netip.Addr
	Ports      []ServicePort
	// Selectorless says that somebody writes the EndpointSlices by hand.
	Selectorless bool
	// Affinity is how long a client's new connections go where its last one
	// went; 0: they go anywhere.
	Affinity time.Duration
	// NodeLocal keeps connections on the client's node.
	NodeLocal bool
	// ExternalNodeLocal keeps connections from outside of the cluster on the node
	// at which they come in, and their source address as it is.
	ExternalNodeLocal bool
	// HealthCheckNodePort is where a node says how many backends it has; 0: nowhere.
	HealthCheckNodePort uint16
	// ExternalIPs are those of the spec, whoever may have them: see scaled.ExternalIPs.
	ExternalIPs []netip.Addr
	// LoadBalancer is the text that says what is asked of Alioth as a load balancer:
	// LoadBalancerVPC, LoadBalancerExternal, or what is neither; "" where Alioth is
	// not asked.
	LoadBalancer string
	// AskedIPs is the text that asks for addresses of the load balancer, AskedPool
	// the name of the ExternalPool they are to come from; "" for any.
	AskedIPs, AskedPool string
	// SourceRanges are the only clients of a load balancer's addresses; nil: all.
	SourceRanges []netip.Prefix
}

// What a Service may ask of Alioth as a load balancer, spelled as in the API:
// addresses in its VPC, or outside.
const (
	LoadBalancerVPC      = "VPC"
	LoadBalancerExternal = "External"
)

// ExternalPool is the row of an ExternalPool object. Key: Name.
type ExternalPool struct {
	Meta
	Name string
	// Ranges of addresses, all of which may be used.
	Ranges         []AddrRange
	AllowedTenants []string
	// ForExternalIPs: tenants name its addresses in spec.externalIPs; otherwise load
	// balancers get them.
	ForExternalIPs bool
	Ready          bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

// HostAccess is the row of a HostAccess object. Key: Name.
type HostAccess struct {
	Meta
	Name           string
	AllowedTenants []string
	// Ports of nodes that pods of these tenants may ask for.
	Ports []HostPortRange
	// HostNetwork lets them be on the nodes' network.
	HostNetwork bool
	Ready       bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

// HostPortRange are ports of a node.
type HostPortRange struct {
	// Protocol is TCP, UDP or SCTP; "" for all of them.
	Protocol string
	// First and Last are both in the range, 1 to 65535.
	First, Last uint16
}

// ExternalAddress is the row of an ExternalAddress object. Key: IP.
type ExternalAddress struct {
	Meta
	IP netip.Addr
	// Pool is the name of the ExternalPool.
	Pool string
	// Holder is a Service.
	Holder Holder
	// Node that announces the address; "" while none can.
	Node string
}

// SharedService is the row of a SharedService object. Key: Name.
type SharedService struct {
	Meta
	Name string
	// ServiceNamespace and ServiceName name the Service, which need not exist.
	ServiceNamespace, ServiceName string
	Ready                         bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

// ServicePort is one port of a Service.
type ServicePort struct {
	Name string
	// Protocol is TCP, UDP or SCTP.
	Protocol string
	Port     uint16
	// NodePort of a Service's port; 0 for none, and in a slice.
	NodePort uint16
}

// EndpointSlice is the row of an EndpointSlice. Key: (Namespace, Name).
type EndpointSlice struct {
	Meta
	Namespace, Name string
	// Service that the slice belongs to, from its label.
	Service string
	// Ports by name; a port's number is 0 when the slice leaves it out.
	Ports     []ServicePort
	Endpoints []Endpoint
}

// Endpoint is one backend of an EndpointSlice.
type Endpoint struct {
	Addresses []netip.Addr
	// Ready is true for a backend that may get new connections.
	Ready bool
	// Terminating is true for a backend that is shutting down but serving.
	Terminating bool
	Node        string
	// PodUID is the UID of the target pod, or "".
	PodUID string
	// ForNodes and ForZones are the places for whose clients the endpoint is
	// meant; none: it has no hint.
	ForNodes, ForZones []string
}
