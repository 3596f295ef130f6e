// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Numbers of domains. They begin above the VNIs (24 bits, RFC 7348), so no packet has one.
const (
	MinDomainNumber = 1 << 24
	MaxDomainNumber = 1<<31 - 1
)

// DomainClaimSpec is a number and its network outside of every VPC.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a DomainClaim can't change"
type DomainClaimSpec struct {
	// Number stands for the network in the tables of the nodes, where a VPC has its VNI.
	// It is in no packet.
	// +kubebuilder:validation:Minimum=16777216
	// +kubebuilder:validation:Maximum=2147483647
	Number int32 `json:"number"`
	// Network holds the number, by its UID: a successor of the same name does not hold it.
	Network NetworkReference `json:"network"`
}

// DomainClaim is the claim of one number for one network outside of every VPC. Its
// creation is the allocation, as with VNIClaim.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=domainclaims,singular=domainclaim
// +kubebuilder:printcolumn:name="Number",type=integer,JSONPath=`.spec.number`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.network.kind`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.network.namespace`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^domain-[1-9][0-9]{0,9}$') && int(self.metadata.name.substring(7)) == self.spec.number",message="metadata.name must be domain-<spec.number>"
type DomainClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DomainClaimSpec `json:"spec"`
}

// DomainClaimList is a list of DomainClaims.
// +kubebuilder:object:root=true
type DomainClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DomainClaim `json:"items"`
}

// DomainClaimName returns the name of the DomainClaim object of a number.
func DomainClaimName(number uint32) string { return fmt.Sprintf("domain-%d", number) }

func init() {
	register(&DomainClaim{}, &DomainClaimList{})
}
