// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ReadyCondition is the condition type of VPCs, Subnets and Networks that reports
// whether pods can use them.
const ReadyCondition = "Ready"

// NameConflictCondition is the condition type of a Network that reports an older
// Network of the tenant with the same name. The older one serves the tenant's
// namespaces without a Network of that name, this one only its own namespace.
const NameConflictCondition = "NameConflict"

// Reasons of the Ready condition.
const (
	// ReadyReason: the object can be used.
	ReadyReason = "Ready"
	// DeletingReason: the object is being deleted; the message names the objects
	// that still use it.
	DeletingReason = "Deleting"

	// VNIPendingReason (VPC): the VNI is not claimed yet.
	VNIPendingReason = "VNIPending"
	// VNITakenReason (VPC): the VNI in spec.vni belongs to another VPC.
	VNITakenReason = "VNITaken"
	// VNIExhaustedReason (VPC): no VNI is free.
	VNIExhaustedReason = "VNIExhausted"
	// RangeReservedReason (VPC): a range overlaps a reserved one: service ranges, the
	// shadow range, or, for the default VPC, the nodes' networks.
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

// Reasons of the pod condition NetworkReadyCondition, and of its Warning events.
const (
	// AttachedReason: the pod has its addresses.
	AttachedReason = "AddressesAssigned"
	// AllocationReplacedReason (event only): the annotation about the pod's attachments
	// named things that no Address or AttachmentClaim confirms, and was replaced.
	AllocationReplacedReason = "AllocationReplaced"
	// AnnotationsTooLargeReason: the pod's annotations leave no room for its allocation
	// status. Kubernetes limits the annotations of an object to 256 KiB in all.
	AnnotationsTooLargeReason = "AnnotationsTooLarge"
	// InterfacesInvalidReason: an annotation that requests interfaces is malformed, or its
	// elements do not fit each other or their networks.
	InterfacesInvalidReason = "InterfacesInvalid"
	// DelegationNotGrantedReason: no DelegationGrant permits the CNI plugins that would run
	// for the pod.
	DelegationNotGrantedReason = "DelegationNotGranted"
	// RequestIgnoredReason (event): the pod requests a value for an interface that its
	// network does not take. The pod starts without it.
	RequestIgnoredReason = "RequestIgnored"
	// DefaultRouteKeptReason (event): a network of the pod would have given it a second
	// default route.
	DefaultRouteKeptReason = "DefaultRouteKept"
	// DevicesNotRequestedReason: the pod's containers request fewer devices than its
	// interfaces need.
	DevicesNotRequestedReason = "DevicesNotRequested"
	// RouteConflictReason: two of the requested interfaces would have a route to one
	// destination, for example a default route.
	RouteConflictReason = "RouteConflict"
	// ProbesOutsideVPCReason: the kubelet probes the pod over the network, and the pod's
	// first interface is outside of every VPC.
	ProbesOutsideVPCReason = "ProbesOutsideVPC"
	// HostPortOutsideVPCReason: the pod requests a port of the node, and its first
	// interface is outside of every VPC.
	HostPortOutsideVPCReason = "HostPortOutsideVPC"
	// NICInvalidReason: the nic annotation is malformed.
	NICInvalidReason = "NICInvalid"
	// NetworkNotFoundReason: no Network of that name in the pod's namespace
	// or another one of its tenant.
	NetworkNotFoundReason = "NetworkNotFound"
	// NetworkNotReadyReason: the Network is not Ready; the message has the cause.
	NetworkNotReadyReason = "NetworkNotReady"
	// NetworkTypeReason: the Network is of a type that Alioth does not serve.
	NetworkTypeReason = "NetworkTypeNotServed"
	// NameTooLongReason (Network): its name is longer than the label that pods name it with.
	NameTooLongReason = "NameTooLong"
	// NoDefaultNetworkReason: the pod names no Network, its tenant has none
	// named "default", and the default VPC does not allow the tenant.
	NoDefaultNetworkReason = "NoDefaultNetwork"
	// SubnetNotFoundReason: the VPC has no subnet of the requested name.
	SubnetNotFoundReason = "SubnetNotFound"
	// SubnetNotReadyReason: the requested subnet is not Ready.
	SubnetNotReadyReason = "SubnetNotReady"
	// SubnetUseReason: the requested subnet, or the subnet of the requested IP, is for
	// holders of another kind: spec.use is Pods or Services.
	SubnetUseReason = "SubnetForOthers"
	// IPOutsideVPCReason: no subnet of the VPC contains the requested IP.
	IPOutsideVPCReason = "IPOutsideVPC"
	// IPOutsideSubnetReason: the requested IP is not in the requested subnet.
	IPOutsideSubnetReason = "IPOutsideSubnet"
	// IPReservedReason: the requested IP is a network, broadcast, gateway or reserved
	// address.
	IPReservedReason = "IPReserved"
	// IPInUseReason: another live holder has the requested IP; the message names it.
	IPInUseReason = "IPInUse"
	// IPReleasingReason: a pod that is being deleted has the requested IP; its release
	// is awaited.
	IPReleasingReason = "IPReleasing"
	// PodNetworkInstanceNotFoundReason: the pod's namespace has no PodNetworkInstance of the
	// name in the pod's label.
	PodNetworkInstanceNotFoundReason = "PodNetworkInstanceNotFound"
	// PodNetworkInstanceNotReadyReason: that instance has not reserved its addresses.
	PodNetworkInstanceNotReadyReason = "PodNetworkInstanceNotReady"
	// PodNetworkNotReadyReason: a PodNetwork that the pod needs does not exist, or is not
	// Ready.
	PodNetworkNotReadyReason = "PodNetworkNotReady"
	// NodeCapacityReason: an interface needs a device of the node, and the node has none to
	// give.
	NodeCapacityReason = "NodeCapacityExceeded"
	// NodeNotMultitenantReason: the pod asks for the network of a tenant by a label of the node
	// IPAM API, and its node lacks the label of that API.
	NodeNotMultitenantReason = "NodeNotMultitenant"
	// SubnetExhaustedReason: all addresses of the suitable subnets are in use.
	SubnetExhaustedReason = "SubnetExhausted"
	// NoAddressRangeReason: the network outside of every VPC has no addresses of the
	// requested family.
	NoAddressRangeReason = "NoAddressRange"
	// IPOutsideNetworkReason: the requested IP is not in the range of the network outside
	// of every VPC.
	IPOutsideNetworkReason = "IPOutsideNetwork"
	// NetworkExhaustedReason: no address of the network outside of every VPC is free.
	NetworkExhaustedReason = "NetworkExhausted"
	// AddressLostReason (event): in the API, another object has the address of a
	// running pod, or its VPC is gone, for example after a restore from an older
	// backup. The pod is disconnected and has to be deleted.
	AddressLostReason = "AddressLost"
	// ProbeConflictReason: another pod with the same IP on the same node has
	// network probes or hooks already.
	ProbeConflictReason = "ProbeConflict"
	// HostPortConflictReason (event): the node itself, another pod or a Service uses
	// the port of the node that the pod requests.
	HostPortConflictReason = "HostPortConflict"
	// HostPortNotGrantedReason (event): no HostAccess grants the requested port of the
	// node to the pod's tenant.
	HostPortNotGrantedReason = "HostPortNotGranted"
	// InterfaceRestoredReason (event): the pod's interface was deleted on its node,
	// and created again.
	InterfaceRestoredReason = "InterfaceRestored"
	// InterfaceLostReason (event): the pod's interface was deleted, moved or renamed
	// on its node and can't be restored. The pod has to be deleted.
	InterfaceLostReason = "InterfaceLost"
)

// EndpointsLeftOutReason is the reason of the Warning event of a Service with ignored
// endpoints: no valid pod of the Service's VPC has their addresses.
const EndpointsLeftOutReason = "EndpointsLeftOut"

// Reasons of the Warning events of a Service that gets no address outside of its
// VPC.
const (
	// ExternalPoolNotFoundReason: no pool, or none of the requested name, allows the
	// tenant.
	ExternalPoolNotFoundReason = "ExternalPoolNotFound"
	// ExternalPoolNotReadyReason: the pools that allow the tenant are not Ready.
	ExternalPoolNotReadyReason = "ExternalPoolNotReady"
	// IPOutsidePoolReason: no pool that allows the tenant contains the requested IP.
	IPOutsidePoolReason = "IPOutsidePool"
	// ExternalPoolExhaustedReason: all addresses of the pools are in use.
	ExternalPoolExhaustedReason = "ExternalPoolExhausted"
)

// ExternalIPsNotGrantedReason is the reason of the Warning event of a Service with
// external IPs that no pool grants to its tenant.
const ExternalIPsNotGrantedReason = "ExternalIPsNotGranted"

// NotServedByAllNodesReason is the reason of the Warning event of a Service with
// external addresses and without node ports: nodes without a backend refuse its packets.
const NotServedByAllNodesReason = "NotServedByAllNodes"

// LoadBalancerInvalidReason is the reason of the Warning event of a Service with invalid
// annotations for its load balancer.
const LoadBalancerInvalidReason = "LoadBalancerInvalid"

// ServicesExhaustedReason is the reason of the Warning event of a Service above the quota:
// the Services of its VPC exceed the share of one VPC in a node's tables.
const ServicesExhaustedReason = "ServicesExhausted"

// NetworkHealthyCondition is the condition of a Node that is False if its network has a
// problem that an administrator has to solve.
const NetworkHealthyCondition = "alioth.dev/NetworkHealthy"

// NetworkUpReason is the reason of the condition NetworkUnavailable of a Node whose datapath
// Alioth has programmed. Other networks have reasons of their own.
const NetworkUpReason = "AliothIsUp"

// OfDaemon reports whether a daemon of Alioth writes conditions of a Node of this type with this
// reason. NetworkUnavailable may come from another network, which has its own reason.
func OfDaemon(conditionType, reason string) bool {
	return conditionType == NetworkHealthyCondition || conditionType == "NetworkUnavailable" && reason == NetworkUpReason
}

// Reasons of the condition NetworkHealthyCondition, the gravest first.
const (
	// NotProgrammedReason: programming of the node fails.
	NotProgrammedReason = "NotProgrammed"
	// ObjectsLeftOutReason: the node does not program some objects of the API, because
	// they contradict themselves or others.
	ObjectsLeftOutReason = "ObjectsLeftOut"
	// TrafficBlockedReason: another program's packet filter on the node drops
	// traffic of pods.
	TrafficBlockedReason = "TrafficBlocked"
	// ProxyHealthUnservedReason: the health pages for external load balancers are not
	// served, because another program has the port.
	ProxyHealthUnservedReason = "ProxyHealthUnserved"
	// NodeIPAMPortUnservedReason: the node IPAM API is not served at its TCP port, only at its
	// socket.
	NodeIPAMPortUnservedReason = "NodeIPAMPortUnserved"
	// OtherCNIConfigurationReason: the container runtime uses another CNI
	// configuration, because its file sorts before Alioth's.
	OtherCNIConfigurationReason = "OtherCNIConfiguration"
	// PodMTUTooLargeReason: the MTU of the node's network has shrunk, and the daemon
	// could not change running pods.
	PodMTUTooLargeReason = "PodMTUTooLarge"
	// MTUBelowIPv6Reason: the MTU of the node's network is below the 1280 bytes that
	// the node's pods with IPv6 need.
	MTUBelowIPv6Reason = "MTUBelowIPv6"
	// NetworkHealthyReason: the network has none of these problems.
	NetworkHealthyReason = "Healthy"
)

// Reasons of the Warning events of a Node about rejected data of its daemon or kubelet: an
// attacker may have its token.
const (
	// AddressNotOfNodeReason: an Address of the node named a pod that is not there.
	AddressNotOfNodeReason = "AddressNotOfNode"
	// TooManyVNIsReason: the node reports more VNIs of deleted VPCs than it can have
	// had pods.
	TooManyVNIsReason = "TooManyVNIs"
	// RollCallUnansweredReason: the node is Ready and does not report its VNIs, so
	// reserved VNIs can't be released.
	RollCallUnansweredReason = "RollCallUnanswered"
	// NodeAddressDoubtedReason: the kubelet reports an address of an older node, or one in
	// a range of the cluster.
	NodeAddressDoubtedReason = "NodeAddressDoubted"
)

// RepairedReason is the reason of the Warning event of a Node: objects of Alioth on it were
// deleted or changed by hand, and have been restored.
const RepairedReason = "Repaired"

// NetworkNotRestoredReason is the reason of the Warning event of a Node: a change of the node's
// own network was undone without the whole state before.
const NetworkNotRestoredReason = "NetworkNotRestored"

// TooManyGrantsReason is for a HostAccess that would grant more, beside older ones, than
// admission can be told.
const TooManyGrantsReason = "TooManyGrants"

// ObjectLeftOutReason is the reason of the Warning event, and of the condition Ready, of an
// object that Alioth leaves out, because it can't be read or contradicts itself.
const ObjectLeftOutReason = "ObjectLeftOut"

// EventsWithheldReason is the reason of the Warning event of a Namespace whose objects cause
// more events than the operator writes.
const EventsWithheldReason = "EventsWithheld"

// ProfileCondition is the condition type of a TenantNetwork that is True once the operator
// has written the device, the VNI and the NetworkID of a TenantConfig into its spec. From
// then on a change of the TenantConfig does not change the network.
const ProfileCondition = "Profile"

// ProfileReason is the reason of a ProfileCondition that is True.
const ProfileReason = "Written"

// SpecHandedBackCondition is the condition type of a TenantNetwork that is False if the API
// server refuses the spec without the values that an earlier release wrote there. The network
// works: status.profile counts. Every other network lacks the condition.
const SpecHandedBackCondition = "SpecHandedBack"

// SpecRefusedReason is the reason of a SpecHandedBackCondition.
const SpecRefusedReason = "SpecRefused"

// Reasons of the Ready condition of networks outside of every VPC: DanmNet, TenantNetwork and
// ClusterNetwork; and of TenantConfigs. Such networks have the reasons NameConflict,
// Overlap, VNIPending, VNITaken and VNIExhausted too. A network that no pod can use as the
// cluster is has NetworkTypeNotServed, DelegationNotGranted, PluginFileMissing or NoServingNode.
const (
	// InvalidReason: the object has a value that the schema lets pass and that can't be
	// used; the message has it.
	InvalidReason = "Invalid"
	// NetworkIDMissingReason: the network has no NetworkID.
	NetworkIDMissingReason = "NetworkIDMissing"
	// RangeInUseReason: a held address lies outside of the network's ranges.
	RangeInUseReason = "RangeInUse"
	// TenantConfigNotFoundReason (TenantNetwork): no TenantConfig can be used.
	TenantConfigNotFoundReason = "TenantConfigNotFound"
	// DeviceNotOfferedReason (TenantNetwork): the TenantConfig does not offer the device
	// or pool, or none at all.
	DeviceNotOfferedReason = "DeviceNotOffered"
	// TypeNotServedReason (TenantNetwork): the TenantConfig has no NetworkID for the
	// network's static type.
	TypeNotServedReason = "TypeNotServed"
	// RangeNotOfferedReason (TenantNetwork): the TenantConfig gives the tenant other ranges
	// on the device.
	RangeNotOfferedReason = "RangeNotOffered"
	// TenantLimitReason (DanmNet, TenantNetwork): the network is above a limit of its tenant.
	// It is the reason of a WithinLimitsCondition, too, and of an event of a Service that
	// selects endpoints by annotations.
	TenantLimitReason = "TenantLimitReached"
	// NoServingNodeReason: all nodes report that they lack the network's device or link, or
	// none offers devices of its pool. The network becomes Ready again with the first node.
	NoServingNodeReason = "NoServingNode"
	// PluginFileMissingReason: no node has a configuration for the NetworkID of a static type.
	PluginFileMissingReason = "PluginFileMissing"
	// OlderServesReason (TenantConfig): an older TenantConfig serves.
	OlderServesReason = "OlderServes"
)

// HostLinkCondition is the condition type of a network on a device of the nodes, or on a VLAN
// or VXLAN there. It is True while no node reports that it lacks the device or link. It does not
// delay pods: pods on other nodes work.
const HostLinkCondition = "HostLink"

// HostLinkReadyReason is the reason of a HostLinkCondition that is True: no node reports a
// failure.
const HostLinkReadyReason = "Complete"

// HostLinkFailedReason is the reason of a HostLinkCondition that is False: nodes lack the
// link, and the message names some of them. It is the reason of an event of the Node too.
const HostLinkFailedReason = "HostLinkFailed"

// WithinLimitsCondition is the condition type of a network that is False if the network is
// above a limit of its tenant and works all the same, because it did before. It does not
// delay pods. A network within the limits does not have the condition.
const WithinLimitsCondition = "WithinLimits"

// IsolatedCondition is the condition type of a network that is False if the network gives up
// a protection that its interfaces would have. It does not delay pods. A network that gives
// up none does not have the condition; docs/tenants/isolation.md lists the rules that each type
// of network enforces.
const IsolatedCondition = "Isolated"

// PodSecurityMissingReason is the reason of an IsolatedCondition of a Network: the message
// names namespaces of the tenant whose pods may control their nodes.
const PodSecurityMissingReason = "PodSecurityMissing"

// NotEnforcedReason is the reason of an IsolatedCondition that is False; the message has the
// protections.
const NotEnforcedReason = "NotEnforced"

// Reasons of failures of host links.
const (
	// ParentMissingReason: the node has no device of that name.
	ParentMissingReason = "ParentMissing"
	// ParentDownReason: the parent device is down.
	ParentDownReason = "ParentDown"
	// ParentUnsuitableReason: the parent device can't have such links: it is not an Ethernet
	// device, or is Alioth's own.
	ParentUnsuitableReason = "ParentUnsuitable"
	// ParentUnaddressedReason: the parent device of a VXLAN has no IP address.
	ParentUnaddressedReason = "ParentUnaddressed"
	// VXLANDeviceNotListedReason: the parent device of a VXLAN has no InternalIP of the node,
	// and the administrator has not listed the device.
	VXLANDeviceNotListedReason = "VXLANDeviceNotListed"
	// KernelUnsupportedReason: the node's kernel has no such links.
	KernelUnsupportedReason = "KernelUnsupported"
	// LinkRefusedReason: the kernel refuses this link.
	LinkRefusedReason = "LinkRefused"
)

// Reasons of the Warning events of a Service whose annotations select pods and networks for
// its endpoints. Such Services have the reasons NetworkNotFound, NetworkType and
// TenantNotAllowed too.
const (
	// EndpointsInvalidReason: the annotations, or a definition that they name, can't be used.
	EndpointsInvalidReason = "EndpointsInvalid"
	// SelectorInSpecReason: the Service has a selector, so Kubernetes writes its endpoints.
	SelectorInSpecReason = "SelectorInSpec"
	// InterfaceWithoutAddressReason: a selected interface has no address of Alioth.
	InterfaceWithoutAddressReason = "InterfaceWithoutAddress"
	// ClusterIPNotServedReason: endpoints are in another VPC than the ClusterIP.
	ClusterIPNotServedReason = "ClusterIPNotServed"
	// EndpointsNotOwnedReason: another program wrote the Endpoints object of the Service.
	EndpointsNotOwnedReason = "EndpointsNotOwned"
)

// RolesReadyCondition is the condition type of VPCs with dividers and Subnets with bouncers
// that reports whether as many nodes serve as the spec asks for.
const RolesReadyCondition = "RolesReady"

// Reasons of the RolesReady condition.
const (
	// RolesServingReason: as many nodes serve as are wanted.
	RolesServingReason = "RolesServing"
	// RolesJoiningReason: chosen nodes are filling their tables.
	RolesJoiningReason = "RolesJoining"
	// TooFewRoleNodesReason: fewer nodes can take a role than are wanted.
	TooFewRoleNodesReason = "TooFewRoleNodes"
	// ScaledEndpointsOffReason: the chart has scaledEndpoints.enabled false, and nodes need
	// these objects to work without complete tables.
	ScaledEndpointsOffReason = "ScaledEndpointsOff"
	// NodesLackRolesReason: a node runs a release that can't use roles.
	NodesLackRolesReason = "NodesLackRoles"
)

// Reasons of the Ready condition of objects of the node IPAM API. PodNetworks also have
// Invalid, OlderServes, VPCNotFound, VPCNotReady, SubnetNotFound, SubnetNotReady and
// SubnetForOthers; PodNetworkInstances also Invalid, OlderServes, PodNetworkNotReady,
// TenantNotAllowed, SubnetExhausted, and why an address of spec.ipConstraint can't be
// reserved.
const (
	// ReservingReason (PodNetworkInstance): addresses are being reserved.
	ReservingReason = "Reserving"
	// ReservationLimitReason (PodNetworkInstance): the PodNetwork allows fewer reserved
	// addresses.
	ReservationLimitReason = "ReservationLimit"
	// ForeignDefinitionReason (PodNetworkInstance): the CRD is not Alioth's and drops
	// Alioth's fields about reserved addresses.
	ForeignDefinitionReason = "ForeignDefinition"
)
