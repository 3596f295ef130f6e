// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HostVNIClaimNetwork names the network that holds a number.
type HostVNIClaimNetwork struct {
	// Group of the network's API.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Group string `json:"group"`
	// Kind of the network.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Kind string `json:"kind"`
	// Namespace of the network; empty for a cluster-scoped one.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the network.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// UID of the network: a successor of the same name does not hold the number.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	UID string `json:"uid"`
}

// HostVNIClaimSpec is a VLAN ID or VXLAN network identifier on a device of the nodes, and
// the network that holds it.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a HostVNIClaim can't change"
// +kubebuilder:validation:XValidation:rule="self.type != 'vlan' || self.vni <= 4094",message="a VLAN ID is at most 4094"
type HostVNIClaimSpec struct {
	// Type is vlan (IEEE 802.1Q) or vxlan (RFC 7348).
	// +kubebuilder:validation:Enum=vlan;vxlan
	Type string `json:"type"`
	// VNI is the number.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`
	// Device is the parent device on the nodes, or the pool of devices (an extended
	// resource).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[\pL\pM\pN\pP\pS]+$`
	Device string `json:"device"`
	// Network holds the number.
	Network HostVNIClaimNetwork `json:"network"`
}

// HostVNIClaim is the claim of one number of a TenantConfig for one network. Its creation
// is the allocation, as with Address.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=hostvniclaims,singular=hostvniclaim,shortName=hvni
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="VNI",type=integer,JSONPath=`.spec.vni`
// +kubebuilder:printcolumn:name="Device",type=string,JSONPath=`.spec.device`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.network.kind`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.network.namespace`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^(vlan|vxlan)-[1-9][0-9]{0,7}[.]([-a-z0-9]+|0[.][0-9a-f]+)$') && self.metadata.name.startsWith(self.spec.type + '-') && int(self.metadata.name.substring(self.spec.type.size() + 1, self.metadata.name.indexOf('.'))) == self.spec.vni && (self.spec.device.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$') ? self.metadata.name.substring(self.metadata.name.indexOf('.') + 1) == self.spec.device : self.metadata.name.contains('.0.'))",message="metadata.name must be <spec.type>-<spec.vni>.<spec.device>, or <spec.type>-<spec.vni>.0.<spec.device in hexadecimal>"
type HostVNIClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HostVNIClaimSpec `json:"spec"`
}

// HostVNIClaimList is a list of HostVNIClaims.
// +kubebuilder:object:root=true
type HostVNIClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostVNIClaim `json:"items"`
}

// HostVNIClaimName returns the name of the HostVNIClaim object of a number: type is vlan or
// vxlan. A device that is no DNS label (RFC 1123) is in hexadecimal behind a label 0, so
// that no two devices share a name.
func HostVNIClaimName(vniType string, vni uint32, device string) string {
	return fmt.Sprintf("%s-%d.%s", vniType, vni, labelOrHex(device))
}

func init() {
	register(&HostVNIClaim{}, &HostVNIClaimList{})
}
