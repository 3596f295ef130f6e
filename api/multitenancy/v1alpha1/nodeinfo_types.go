// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeInfoSpec has facts that the daemon of a node knows about the machine.
type NodeInfoSpec struct {
	// VMUniqueID identifies the virtual machine: by SMBIOS, the cloud or the node's
	// configuration. Without these it is the ID of the node's system with the prefix
	// "machine-id:", or the UID of the Node with the prefix "node-uid:".
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	// +optional
	VMUniqueID string `json:"vmUniqueID,omitempty"`
	// HomeAZ is the availability zone of the machine, for example AZ01.
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="self.matches('^AZ[0-9]{2}$')",message="homeAZ must be AZ and two digits, for example AZ01"
	// +optional
	HomeAZ string `json:"homeAZ,omitempty"`
}

// DeviceInfo is a device that pods of the node can get.
type DeviceInfo struct {
	// DeviceType is the type of the device.
	// +optional
	DeviceType DeviceType `json:"deviceType,omitempty"`
	// MacAddress is the Ethernet address of the device, which is unique on the node: six
	// pairs of hexadecimal digits.
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$')",message="macAddress must be an Ethernet address, for example 00:0d:3a:12:34:56"
	MacAddress string `json:"macAddress"`
}

// NodeInfoStatus lists the devices that pods of the node can get.
type NodeInfoStatus struct {
	// DeviceInfos are the devices that the node offers.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	DeviceInfos []DeviceInfo `json:"deviceInfos,omitempty"`
}

// NodeInfo describes the machine of a node and the devices that it offers. It has the name of
// the Node, which owns it. The daemon of the node writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=nodeinfo,singular=nodeinfo,shortName=ni
// +kubebuilder:selectablefield:JSONPath=`.spec.vmUniqueID`
// +kubebuilder:printcolumn:name="VMUniqueID",type=string,JSONPath=`.spec.vmUniqueID`
// +kubebuilder:printcolumn:name="HomeAZ",type=string,priority=1,JSONPath=`.spec.homeAZ`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeInfo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec NodeInfoSpec `json:"spec,omitempty"`
	// +optional
	Status NodeInfoStatus `json:"status,omitempty,omitzero"`
}

// NodeInfoList is a list of NodeInfos.
// +kubebuilder:object:root=true
type NodeInfoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeInfo `json:"items"`
}
