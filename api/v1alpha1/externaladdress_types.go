// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceReference names a Service with its UID.
type ServiceReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the Service: a successor of the same name does not hold the address.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// ExternalAddressSpec is one IP outside of every VPC, and its holder.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an ExternalAddress can't change: it is released by deleting it"
type ExternalAddressSpec struct {
	// IP in canonical form (RFC 5952 for IPv6).
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip.isCanonical(self)",message="must be an IP address in canonical form"
	IP string `json:"ip"`
	// Pool is the name of the ExternalPool that the address was taken from.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pool string `json:"pool"`
	// Service that holds the address.
	Service ServiceReference `json:"service"`
}

// ExternalAddressStatus is the operator's decision about the address.
type ExternalAddressStatus struct {
	// Node is the name of the node that announces the address on the nodes' network;
	// empty while no node can.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Node string `json:"node,omitempty"`
}

// ExternalAddress is one IP on the nodes' network that leads to a Service: the claim of
// the IP, and the record of the node that announces it. Its creation is the allocation,
// as with Address.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=externaladdresses,singular=externaladdress,shortName=extaddr
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.spec.ip`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.node`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.service.namespace`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == (self.spec.ip.endsWith('::') ? self.spec.ip.replace(':', '-') + '0' : self.spec.ip.replace(':', '-'))",message="metadata.name must be <spec.ip>, with '-' for ':'"
type ExternalAddress struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ExternalAddressSpec   `json:"spec"`
	Status ExternalAddressStatus `json:"status,omitempty"`
}

// ExternalAddressList is a list of ExternalAddresses.
// +kubebuilder:object:root=true
type ExternalAddressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExternalAddress `json:"items"`
}

// ExternalAddressName returns the name of the ExternalAddress object of an IP,
// spelled as in the name of an Address: '-' for ':' and a trailing "::" as "--0".
func ExternalAddressName(ip netip.Addr) string { return spelled(ip) }

func init() {
	register(&ExternalAddress{}, &ExternalAddressList{})
}
