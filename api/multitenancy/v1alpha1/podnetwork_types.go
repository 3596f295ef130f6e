// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DefaultMaxReservedIPs is the default of PodNetworkSpec.MaxReservedIPs.
const DefaultMaxReservedIPs = 64

// DeviceType is the type of the device that a pod's interface is made of.
// +kubebuilder:validation:Enum=acn.azure.com/vnet-nic;acn.azure.com/infiniband-nic
type DeviceType string

// Types of devices.
const (
	// DeviceTypeVnetNIC is an Ethernet device that is put into the node for one pod.
	DeviceTypeVnetNIC DeviceType = "acn.azure.com/vnet-nic"
	// DeviceTypeInfiniBandNIC is a known type that Alioth does not serve: a PodNetwork of
	// this type is never Ready.
	DeviceTypeInfiniBandNIC DeviceType = "acn.azure.com/infiniband-nic"
)

// SubnetAllocationMode is how addresses are taken from the subnet.
// +kubebuilder:validation:Enum=Single;PrefixBlock
type SubnetAllocationMode string

// Modes of allocation.
const (
	// AllocationSingle takes single addresses.
	AllocationSingle SubnetAllocationMode = "Single"
	// AllocationPrefixBlock takes blocks. Alioth does not serve it: a PodNetwork with this
	// mode is never Ready.
	AllocationPrefixBlock SubnetAllocationMode = "PrefixBlock"
)

// PodNetworkSpec is the desired state of a PodNetwork.
type PodNetworkSpec struct {
	// NetworkID is the name of the VPC. It may be created later.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NetworkID string `json:"networkID,omitempty"`
	// DeviceType is the type of the devices that pods get: acn.azure.com/vnet-nic if it is
	// empty. Alioth does not serve acn.azure.com/infiniband-nic.
	// +optional
	DeviceType DeviceType `json:"deviceType,omitempty"`
	// SubnetResourceID is the name of a subnet in the VPC, or a path that ends with
	// /subnets/ and this name.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.contains('/') || self.matches('/subnets/[^/]+$')",message="subnetResourceID must be the name of a subnet, or a path that ends with /subnets/<name>"
	// +optional
	SubnetResourceID string `json:"subnetResourceID,omitempty"`
	// SubnetGUID is kept for other programs, and means nothing to Alioth.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SubnetGUID string `json:"subnetGUID,omitempty"`
	// VnetGUID is the older name of NetworkID, which has precedence.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	VnetGUID string `json:"vnetGUID,omitempty"`
	// SubnetAllocationMode: Single takes single addresses. Alioth does not serve PrefixBlock.
	// +kubebuilder:default=Single
	// +optional
	SubnetAllocationMode SubnetAllocationMode `json:"subnetAllocationMode,omitempty"`
	// MaxReservedIPs is the highest number of addresses that all PodNetworkInstances
	// together may reserve in this PodNetwork: 0 to 4096. It is a field of Alioth's own.
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	// +optional
	MaxReservedIPs *int32 `json:"maxReservedIPs,omitempty"`
}

// PodNetworkState tells whether a PodNetwork can be used.
// +kubebuilder:validation:Enum=Ready;InUse;SubnetNotDelegated;SubnetDelegatedToDifferentService
type PodNetworkState string

// States of PodNetworks. The condition Ready has the details.
const (
	// PodNetworkReady: pods can use it, and none does.
	PodNetworkReady PodNetworkState = "Ready"
	// PodNetworkInUse: pods can use it, and some do, or addresses are reserved.
	PodNetworkInUse PodNetworkState = "InUse"
	// PodNetworkNotDelegated: no pod can use it.
	PodNetworkNotDelegated PodNetworkState = "SubnetNotDelegated"
	// PodNetworkOfOthers: the subnet is not for pods.
	PodNetworkOfOthers PodNetworkState = "SubnetDelegatedToDifferentService"
)

// PodNetworkStatus is the observed state of a PodNetwork. Only the operator writes it.
type PodNetworkStatus struct {
	// Status tells whether the PodNetwork can be used.
	// +optional
	Status PodNetworkState `json:"status,omitempty"`
	// AddressPrefixes are the ranges of the subnet, in CIDR notation.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=43
	// +listType=atomic
	// +optional
	AddressPrefixes []string `json:"addressPrefixes,omitempty"`
	// PrefixBlockCIDRLength is the prefix length of blocks in the mode PrefixBlock, 0 to
	// 32. Alioth does not write it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=32
	// +optional
	PrefixBlockCIDRLength int32 `json:"prefixBlockCIDRLength,omitempty"`
	// Conditions: Ready. It is a field of Alioth's own.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodNetwork is a subnet that pods of other CNI plugins can have interfaces in.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=podnetworks,singular=podnetwork,shortName=pn
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.networkID`
// +kubebuilder:printcolumn:name="Subnet",type=string,JSONPath=`.spec.subnetResourceID`
// +kubebuilder:printcolumn:name="Device Type",type=string,priority=1,JSONPath=`.spec.deviceType`
// +kubebuilder:printcolumn:name="Address Prefixes",type=string,priority=1,JSONPath=`.status.addressPrefixes`
// +kubebuilder:printcolumn:name="Max Reserved",type=integer,priority=1,JSONPath=`.spec.maxReservedIPs`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.status) || !(oldSelf.status.status in ['Ready', 'InUse']) || [has(self.spec.networkID) ? self.spec.networkID : '-', has(self.spec.vnetGUID) ? self.spec.vnetGUID : '-', has(self.spec.subnetResourceID) ? self.spec.subnetResourceID : '-', has(self.spec.subnetGUID) ? self.spec.subnetGUID : '-', has(self.spec.deviceType) ? self.spec.deviceType : '-', has(self.spec.subnetAllocationMode) ? self.spec.subnetAllocationMode : '-'] == [has(oldSelf.spec.networkID) ? oldSelf.spec.networkID : '-', has(oldSelf.spec.vnetGUID) ? oldSelf.spec.vnetGUID : '-', has(oldSelf.spec.subnetResourceID) ? oldSelf.spec.subnetResourceID : '-', has(oldSelf.spec.subnetGUID) ? oldSelf.spec.subnetGUID : '-', has(oldSelf.spec.deviceType) ? oldSelf.spec.deviceType : '-', has(oldSelf.spec.subnetAllocationMode) ? oldSelf.spec.subnetAllocationMode : '-']",message="spec must not change while status.status is Ready or InUse, but for maxReservedIPs: make another PodNetwork"
type PodNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	// +optional
	Spec PodNetworkSpec `json:"spec,omitempty"`
	// +optional
	Status PodNetworkStatus `json:"status,omitempty,omitzero"`
}

// PodNetworkList is a list of PodNetworks.
// +kubebuilder:object:root=true
type PodNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodNetwork `json:"items"`
}
