// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

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
// or VXLAN there, that is True while no node reports that it lacks it. It does not delay pods:
// those on other nodes work.
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
// up none does not have the condition; docs/tenants/isolation.md has what each type of network
// enforces.
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
	// ParentUnsuitableReason: the parent device can't have such links: it is no Ethernet, or
	// is Alioth's own.
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
