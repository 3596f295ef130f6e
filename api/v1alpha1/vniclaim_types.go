// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VNIClaimSpec is a VNI and its VPC.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a VNIClaim can't change"
type VNIClaimSpec struct {
	// VNI is the VXLAN network identifier (RFC 7348).
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`
	// VPC is the name of the VPC that holds the VNI.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	VPC string `json:"vpc"`
	// VPCUID is the UID of that VPC: a successor of the same name does not
	// hold the VNI.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	VPCUID string `json:"vpcUID"`
}

// VNIClaim is the claim of one VNI for one VPC. Its creation is the
// allocation, as with Address.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=vniclaims,singular=vniclaim,shortName=vni
// +kubebuilder:printcolumn:name="VNI",type=integer,JSONPath=`.spec.vni`
// +kubebuilder:printcolumn:name="VPC",type=string,JSONPath=`.spec.vpc`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^vni-[1-9][0-9]{0,7}$') && int(self.metadata.name.substring(4)) == self.spec.vni",message="metadata.name must be vni-<spec.vni>"
type VNIClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec VNIClaimSpec `json:"spec"`
}

// VNIClaimList is a list of VNIClaims.
// +kubebuilder:object:root=true
type VNIClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VNIClaim `json:"items"`
}

// VNIClaimName returns the name of the VNIClaim object of a VNI.
func VNIClaimName(vni uint32) string {
	return fmt.Sprintf("vni-%d", vni)
}

func init() {
	register(&VNIClaim{}, &VNIClaimList{})
}
