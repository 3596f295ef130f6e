// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PodNetworkConfig is an interface that each pod of an instance gets.
//
// +kubebuilder:validation:XValidation:rule="!has(self.ipConstraint) || self.ipConstraint.size() == 0 || (has(self.podIPReservationSize) && self.podIPReservationSize == 1)",message="ipConstraint names one address, so it needs podIPReservationSize 1"
type PodNetworkConfig struct {
	// PodNetwork is the name of a PodNetwork.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PodNetwork string `json:"podNetwork"`
	// PodIPReservationSize is the number of addresses that are reserved for pods of the
	// instance: 0 to 4096. With 0 pods get any free addresses.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	// +optional
	PodIPReservationSize int32 `json:"podIPReservationSize,omitempty"`
	// IPConstraint is the IPv4 address to reserve, alone or with /32.
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || (isIP(self) ? ip(self).family() == 4 : isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self).prefixLength() == 32)",message="ipConstraint must be one IPv4 address, for example 10.0.0.9 or 10.0.0.9/32"
	// +optional
	IPConstraint string `json:"ipConstraint,omitempty"`
}

// PodNetworkInstanceSpec is the desired state of a PodNetworkInstance.
type PodNetworkInstanceSpec struct {
	// PodNetwork and PodIPReservationSize are the older form of one entry of
	// podNetworkConfigs, which has precedence.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PodNetwork string `json:"podnetwork,omitempty"`
	// PodIPReservationSize is the number of addresses that are reserved, 0 to 4096, for
	// podnetwork.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	// +optional
	PodIPReservationSize int32 `json:"podIPReservationSize,omitempty"`
	// PodNetworkConfigs are the interfaces of each pod of the instance, in this order.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	PodNetworkConfigs []PodNetworkConfig `json:"podNetworkConfigs,omitempty"`
	// DefaultDenyACL is handed on to the CNI plugin of the pods, which refuses all
	// connections at first; Alioth does not enforce it.
	// +kubebuilder:default=false
	// +optional
	DefaultDenyACL bool `json:"defaultDenyACL,omitempty"`
}

// InstanceState tells whether an instance, or one of its PodNetworks, can be used.
// +kubebuilder:validation:Enum=Ready;CreateReservationSetError;PodNetworkNotReady;InsufficientIPAddressesOnSubnet
type InstanceState string

// States of instances. The condition Ready has the details.
const (
	// InstanceReady: all addresses are reserved.
	InstanceReady InstanceState = "Ready"
	// InstanceReservationError: addresses can't be reserved.
	InstanceReservationError InstanceState = "CreateReservationSetError"
	// InstancePodNetworkNotReady: a PodNetwork can't be used.
	InstancePodNetworkNotReady InstanceState = "PodNetworkNotReady"
	// InstanceNoAddresses: the subnet has too few free addresses.
	InstanceNoAddresses InstanceState = "InsufficientIPAddressesOnSubnet"
)

// Reservation has the reserved addresses in one PodNetwork.
type Reservation struct {
	// PodNetwork is the name of the PodNetwork.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PodNetwork string `json:"podNetwork"`
	// NetworkID is the name of the VPC of the addresses, as the PodNetwork had it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NetworkID string `json:"networkID"`
	// PodIPAddresses are the addresses.
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:MaxLength=39
	// +listType=atomic
	// +optional
	PodIPAddresses []string `json:"podIPAddresses,omitempty"`
}

// PodNetworkInstanceStatus is the observed state of a PodNetworkInstance. Only the operator
// writes it.
type PodNetworkInstanceStatus struct {
	// PodIPAddresses are all reserved addresses.
	// +kubebuilder:validation:MaxItems=65536
	// +kubebuilder:validation:items:MaxLength=39
	// +listType=atomic
	// +optional
	PodIPAddresses []string `json:"podIPAddresses,omitempty"`
	// Status tells whether the instance can be used. Addresses are in this status before it
	// is Ready.
	// +optional
	Status InstanceState `json:"status,omitempty"`
	// PodNetworkStatuses has the states of single PodNetworks, by name.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	PodNetworkStatuses map[string]InstanceState `json:"podNetworkStatuses,omitempty"`
	// Reservations are the addresses of PodIPAddresses with their VPCs: ranges of two VPCs
	// may overlap. It is a field of Alioth's own.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Reservations []Reservation `json:"reservations,omitempty"`
	// Conditions: Ready. It is a field of Alioth's own.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PodNetworkInstance attaches the pods of one workload to PodNetworks, and reserves
// addresses for them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=podnetworkinstances,singular=podnetworkinstance,shortName=pni
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Pod Networks",type=string,priority=1,JSONPath=`.spec.podNetworkConfigs`
// +kubebuilder:printcolumn:name="Pod IPs",type=string,priority=1,JSONPath=`.status.podIPAddresses`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="spec must not change: make another PodNetworkInstance"
type PodNetworkInstance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	// +optional
	Spec PodNetworkInstanceSpec `json:"spec,omitempty"`
	// +optional
	Status PodNetworkInstanceStatus `json:"status,omitempty,omitzero"`
}

// PodNetworkInstanceList is a list of PodNetworkInstances.
// +kubebuilder:object:root=true
type PodNetworkInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodNetworkInstance `json:"items"`
}
