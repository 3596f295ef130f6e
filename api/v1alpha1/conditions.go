// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ReadyCondition is the condition type of VPCs, Subnets and Networks that sums
// up whether pods can use them.
const ReadyCondition = "Ready"

// NameConflictCondition is the condition type of a Network that says that an
// older one of the tenant has the same name: the older serves the tenant's
// namespaces without a Network of that name, this one its own namespace alone.
const NameConflictCondition = "NameConflict"

// Reasons of the Ready condition.
const (
	// ReadyReason: nothing is in the way.
	ReadyReason = "Ready"
	// DeletingReason: the object is being deleted; the message says what
	// still holds it.
	DeletingReason = "Deleting"

	// VNIPendingReason (VPC): the VNI is not claimed yet.
	VNIPendingReason = "VNIPending"
	// VNITakenReason (VPC): the VNI that spec.vni asks for belongs to another
	// VPC.
	VNITakenReason = "VNITaken"
	// VNIExhaustedReason (VPC): no VNI is free.
	VNIExhaustedReason = "VNIExhausted"
	// RangeReservedReason (VPC): a range overlaps one that the cluster needs:
	// service ranges, the shadow range, or, for the default VPC, the nodes'
	// networks.
	RangeReservedReason = "RangeReserved"

	// VPCNotFoundReason (Subnet, Network): the named VPC does not exist.
	VPCNotFoundReason = "VPCNotFound"
	// VPCNotReadyReason (Subnet, Network): the VPC is not Ready.
	VPCNotReadyReason = "VPCNotReady"
	// OutsideVPCReason (Subnet): a range is not inside the VPC's ranges.
	OutsideVPCReason = "OutsideVPC"
	// OverlapReason (Subnet): a range overlaps an older subnet of the VPC.
	OverlapReason = "Overlap"
	// NameConflictReason (Subnet, Network): an older one has the same name in
	// the VPC, or in the tenant.
	NameConflictReason = "NameConflict"
	// CutsOffReason (Subnet): a held address lies outside the ranges.
	CutsOffReason = "CutsOffHeldAddress"

	// TenantNotAllowedReason (Network): the VPC does not allow the tenant.
	TenantNotAllowedReason = "TenantNotAllowed"
	// NoReadySubnetReason (Network): the VPC has no Ready subnet.
	NoReadySubnetReason = "NoReadySubnet"

	// ServiceNotFoundReason (SharedService): the Service does not exist.
	ServiceNotFoundReason = "ServiceNotFound"
	// ServiceOfNetworkReason (SharedService): the Service belongs to a VPC.
	ServiceOfNetworkReason = "ServiceOfNetwork"
	// ServiceNotServedReason (SharedService): the Service has no ClusterIP, or
	// no port of TCP or UDP.
	ServiceNotServedReason = "ServiceNotServed"
)

// Reasons of the pod condition NetworkReadyCondition, and of the Warning
// events that go with it.
const (
	// AttachedReason: the pod has its addresses.
	AttachedReason = "AddressesAssigned"
	// NICInvalidReason: the nic annotation is malformed.
	NICInvalidReason = "NICInvalid"
	// NetworkNotFoundReason: no Network of that name in the pod's namespace
	// or another one of its tenant.
	NetworkNotFoundReason = "NetworkNotFound"
	// NetworkNotReadyReason: the Network is not Ready; the message says why.
	NetworkNotReadyReason = "NetworkNotReady"
	// NetworkTypeReason: the Network is of a type that Alioth does not serve.
	NetworkTypeReason = "NetworkTypeNotServed"
	// NoDefaultNetworkReason: the pod names no Network, its tenant has none
	// named "default", and the default VPC does not allow the tenant.
	NoDefaultNetworkReason = "NoDefaultNetwork"
	// SubnetNotFoundReason: the VPC has no subnet of the name asked for.
	SubnetNotFoundReason = "SubnetNotFound"
	// SubnetNotReadyReason: the subnet asked for is not Ready.
	SubnetNotReadyReason = "SubnetNotReady"
	// SubnetUseReason: the subnet asked for, or that of the IP asked for, is for
	// others: spec.use says for pods or for Services.
	SubnetUseReason = "SubnetForOthers"
	// IPOutsideVPCReason: no subnet of the VPC contains the IP asked for.
	IPOutsideVPCReason = "IPOutsideVPC"
	// IPOutsideSubnetReason: the IP asked for is not in the subnet asked for.
	IPOutsideSubnetReason = "IPOutsideSubnet"
	// IPReservedReason: the IP asked for is a network, broadcast, gateway or
	// reserved address.
	IPReservedReason = "IPReserved"
	// IPInUseReason: another live holder has the IP asked for; the message
	// names it.
	IPInUseReason = "IPInUse"
	// IPReleasingReason: the IP asked for is held by a pod that is being
	// deleted, and is waited for.
	IPReleasingReason = "IPReleasing"
	// SubnetExhaustedReason: no address is free in the subnets that qualify.
	SubnetExhaustedReason = "SubnetExhausted"
	// AddressLostReason (event): the API gave the address of a running pod to
	// somebody else, or its VPC is gone, as after a restore from an older
	// backup. The pod is cut off and to be deleted.
	AddressLostReason = "AddressLost"
	// ProbeConflictReason: another pod with the same IP on the same node has
	// network probes or hooks already.
	ProbeConflictReason = "ProbeConflict"
	// HostPortConflictReason (event): the node itself, another pod or a Service
	// has the port of the node that the pod asks for.
	HostPortConflictReason = "HostPortConflict"
	// HostPortNotGrantedReason (event): no HostAccess grants the pod's tenant the
	// port of the node that the pod asks for.
	HostPortNotGrantedReason = "HostPortNotGranted"
	// InterfaceRestoredReason (event): the pod's interface had been deleted on
	// its node, and was made anew.
	InterfaceRestoredReason = "InterfaceRestored"
	// InterfaceLostReason (event): the pod's interface was deleted, moved or
	// renamed on its node and cannot be made anew. The pod is to be deleted.
	InterfaceLostReason = "InterfaceLost"
)

// EndpointsLeftOutReason is that of the Warning event of a Service some of whose
// endpoints get nothing: nobody holds their addresses in the Service's VPC.
const EndpointsLeftOutReason = "EndpointsLeftOut"

// Reasons of the Warning events of a Service that gets no address outside of its
// VPC.
const (
	// ExternalPoolNotFoundReason: no pool of the name asked for, or none at all,
	// allows the tenant.
	ExternalPoolNotFoundReason = "ExternalPoolNotFound"
	// ExternalPoolNotReadyReason: the pools that allow the tenant are not Ready.
	ExternalPoolNotReadyReason = "ExternalPoolNotReady"
	// IPOutsidePoolReason: no pool that allows the tenant has the IP asked for.
	IPOutsidePoolReason = "IPOutsidePool"
	// ExternalPoolExhaustedReason: no address is free in the pools.
	ExternalPoolExhaustedReason = "ExternalPoolExhausted"
)

// ExternalIPsNotGrantedReason is that of the Warning event of a Service that names
// external IPs which nobody grants to its tenant.
const ExternalIPsNotGrantedReason = "ExternalIPsNotGranted"

// NotServedByAllNodesReason is that of the Warning event of a Service with addresses
// from outside and without node ports: nodes without a backend refuse what comes there.
const NotServedByAllNodesReason = "NotServedByAllNodes"

// LoadBalancerInvalidReason is that of the Warning event of a Service whose
// annotations ask for a load balancer in a way that nobody can serve.
const LoadBalancerInvalidReason = "LoadBalancerInvalid"

// ServicesExhaustedReason is that of the Warning event of a Service for which there is
// no room: the Services of its VPC take more than a node's tables have for one VPC.
const ServicesExhaustedReason = "ServicesExhausted"

// NetworkHealthyCondition is the condition of a Node that reports whether anything
// keeps the node's network from working as it should and waits for a person.
const NetworkHealthyCondition = "alioth.dev/NetworkHealthy"

// Reasons of the condition NetworkHealthyCondition, the gravest first.
const (
	// NotProgrammedReason: the node could be programmed and cannot any more.
	NotProgrammedReason = "NotProgrammed"
	// TrafficBlockedReason: another program's packet filter on the node drops
	// traffic of pods.
	TrafficBlockedReason = "TrafficBlocked"
	// ProxyHealthUnservedReason: load balancers outside can't ask about the node,
	// because another program has the port.
	ProxyHealthUnservedReason = "ProxyHealthUnserved"
	// OtherCNIConfigurationReason: the container runtime uses another CNI
	// configuration, because its file sorts before Alioth's.
	OtherCNIConfigurationReason = "OtherCNIConfiguration"
	// PodMTUTooLargeReason: the MTU of the node's network has shrunk, and running
	// pods could not be given the new one.
	PodMTUTooLargeReason = "PodMTUTooLarge"
	// MTUBelowIPv6Reason: the node's network carries less than 1280 bytes, which
	// the pods with IPv6 on the node need.
	MTUBelowIPv6Reason = "MTUBelowIPv6"
	// NetworkHealthyReason: none of these.
	NetworkHealthyReason = "Healthy"
)

// Reasons of the Warning events of a Node in whose name something was written that
// nobody believes: its daemon's token may be in wrong hands.
const (
	// AddressNotOfNodeReason: an Address of the node named a pod that is not there.
	AddressNotOfNodeReason = "AddressNotOfNode"
	// TooManyVNIsReason: the node says that it holds more VNIs of VPCs that are gone
	// than it can have had pods of.
	TooManyVNIsReason = "TooManyVNIs"
	// RollCallUnansweredReason: the node is Ready and does not say which VNIs it
	// holds, so none that rests can be given to another VPC.
	RollCallUnansweredReason = "RollCallUnanswered"
)

// RepairedReason is that of the Warning event of a Node on which something of
// Alioth's was deleted or changed by hand, and is again as it has to be.
const RepairedReason = "Repaired"
