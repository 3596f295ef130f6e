// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types of this package.
var GroupVersion = schema.GroupVersion{Group: "arktos.futurewei.com", Version: "v1"}

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Network{}, &NetworkList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Names of the Arktos integration.
const (
	// NetworkLabel on a pod or Service names the Network that it belongs to.
	NetworkLabel = "arktos.futurewei.com/network"
	// NICAnnotation on a pod has its owner's request for an interface name, an IP and
	// a subnet as a JSON object (package annotations, type NIC).
	NICAnnotation = "arktos.futurewei.com/nic"
	// ReadinessAnnotation is "true" on a pod that has its addresses. Only the
	// operator writes it.
	ReadinessAnnotation = "arktos.futurewei.com/network-readiness"
	// UserInputAnnotation on a pod has its VPC, subnet and IP
	// (package annotations, type UserInput). Only the operator writes it.
	UserInputAnnotation = "mizar.futurewei.com/network_user_input"
	// DefaultNetwork is the name of the Network that a tenant's pods use when
	// they name none.
	DefaultNetwork = "default"
)

// Values of NetworkSpec.Type that Alioth serves.
const (
	TypeMizar = "mizar"
	TypeVPC   = "vpc"
)

// TypeFlat is the type of Arktos for networks without a VPC. Alioth leaves them alone.
const TypeFlat = "flat"

// NetworkSpec names the VPC behind a Network.
// +kubebuilder:validation:XValidation:rule="!(self.type in ['mizar', 'vpc']) || self.vpcID.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="spec.vpcID must be the name of a VPC: at most 63 of a-z, 0-9 and '-'"
type NetworkSpec struct {
	// Type of the network service: mizar or vpc, which mean the same and which Alioth
	// serves, or flat, which it leaves alone.
	// +kubebuilder:validation:XValidation:rule="self in ['mizar', 'vpc', 'flat']",message="spec.type must be vpc or mizar, which Alioth serves, or flat, which it leaves to others"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Type string `json:"type"`
	// VPCID is the name of the VPC. It may be created after the Network. Pods
	// that run keep the VPC they have when it changes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	VPCID string `json:"vpcID"`
}

// NetworkStatus is the observed state of a Network.
type NetworkStatus struct {
	// Tenant that owns the Network, from its namespace.
	// +optional
	Tenant string `json:"tenant,omitempty"`
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Network is a tenant's name for a VPC. Many Networks, of one or several
// tenants, may name one VPC.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=networks,singular=network,shortName=anet
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="VPC",type=string,JSONPath=`.spec.vpcID`
// +kubebuilder:printcolumn:name="Tenant",type=string,JSONPath=`.status.tenant`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.size() <= 63",optionalOldSelf=true,message="the name of a Network must not be longer than 63 characters, because pods name it in a label"
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkSpec   `json:"spec"`
	Status NetworkStatus `json:"status,omitempty"`
}

// NetworkList is a list of Networks.
// +kubebuilder:object:root=true
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Network `json:"items"`
}
