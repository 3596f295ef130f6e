// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Numbers of PolicyIdentities. Lower numbers have fixed meanings.
const (
	MinPolicyIdentity = 256
	MaxPolicyIdentity = 1<<24 - 1
)

// PolicyIdentityLabel is a label of pods.
type PolicyIdentityLabel struct {
	// Key of the label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Key string `json:"key"`
	// Value of the label.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	// +optional
	Value string `json:"value,omitempty"`
}

// PolicyIdentityPort is a port with a name, of a container.
type PolicyIdentityPort struct {
	// Name of the port.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Protocol of the port.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol string `json:"protocol"`
	// Port is the number of the port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// PolicyIdentitySpec is a set of properties that network policies select pods by, and its number.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a PolicyIdentity can't change"
type PolicyIdentitySpec struct {
	// VPC is the name of the VPC of the pods.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	VPC string `json:"vpc"`
	// Number stands for the set in packets of the VPC.
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=16777215
	Number int32 `json:"number"`
	// Namespace of the pods.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// Labels of the pods whose keys network policies select by.
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=key
	// +optional
	Labels []PolicyIdentityLabel `json:"labels,omitempty"`
	// Omitted are the keys of the other labels of the pods. The pods have no further labels.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +listType=set
	// +optional
	Omitted []string `json:"omitted,omitempty"`
	// Ports of the pods that have a name.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Ports []PolicyIdentityPort `json:"ports,omitempty"`
}

// PolicyIdentity is a set of properties that network policies select pods by, with the number that
// stands for it in packets of one VPC. Its creation is the allocation of the number, as with
// Address. While it has a deletion timestamp, the number rests.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=policyidentities,singular=policyidentity
// +kubebuilder:selectablefield:JSONPath=`.spec.vpc`
// +kubebuilder:printcolumn:name="VPC",type=string,JSONPath=`.spec.vpc`
// +kubebuilder:printcolumn:name="Number",type=integer,JSONPath=`.spec.number`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.namespace`
// +kubebuilder:printcolumn:name="Labels",type=string,JSONPath=`.spec.labels`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[-a-z0-9]+[.][1-9][0-9]{2,7}$') && self.metadata.name.startsWith(self.spec.vpc + '.') && int(self.metadata.name.substring(self.spec.vpc.size() + 1)) == self.spec.number",message="metadata.name must be <spec.vpc>.<spec.number>"
type PolicyIdentity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PolicyIdentitySpec `json:"spec"`
}

// PolicyIdentityList is a list of PolicyIdentities.
// +kubebuilder:object:root=true
type PolicyIdentityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PolicyIdentity `json:"items"`
}

// PolicyIdentityName returns the name of the PolicyIdentity object of a number in a VPC.
func PolicyIdentityName(vpc string, number uint32) string {
	return fmt.Sprintf("%s.%d", vpc, number)
}

func init() {
	register(&PolicyIdentity{}, &PolicyIdentityList{})
}
