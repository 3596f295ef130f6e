// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
)

// PodNetwork is the PodNetwork of package api/multitenancy/v1alpha1 in this group.
// +kubebuilder:object:root=true
type PodNetwork multitenancyv1alpha1.PodNetwork

// PodNetworkList is a list of PodNetworks.
// +kubebuilder:object:root=true
type PodNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodNetwork `json:"items"`
}

// PodNetworkInstance is the PodNetworkInstance of package api/multitenancy/v1alpha1 in this
// group.
// +kubebuilder:object:root=true
type PodNetworkInstance multitenancyv1alpha1.PodNetworkInstance

// PodNetworkInstanceList is a list of PodNetworkInstances.
// +kubebuilder:object:root=true
type PodNetworkInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodNetworkInstance `json:"items"`
}

// ConfigState is the progress of the pod's interfaces.
// +kubebuilder:validation:Enum=provisioned
type ConfigState string

// ConfigProvisioned is the state once every interface has its address. Until then the state
// is empty.
const ConfigProvisioned ConfigState = "provisioned"

// MultiTenantPodNetworkConfigStatus reports the first interface of a pod in a PodNetwork.
// Only the operator writes it.
type MultiTenantPodNetworkConfigStatus struct {
	// UUID identifies the interface's address: the UID of its Address object.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	UUID string `json:"uuid,omitempty"`
	// PrimaryIP is the address, with /32 or /128.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	PrimaryIP string `json:"primaryIP,omitempty"`
	// MacAddress is the Ethernet address of the device.
	// +kubebuilder:validation:MaxLength=23
	// +optional
	MacAddress string `json:"macAddress,omitempty"`
	// Status is provisioned when every interface of the pod has its address.
	// +optional
	Status ConfigState `json:"status,omitempty"`
}

// MultiTenantPodNetworkConfig reports the interface that a pod has in a PodNetwork. It has the
// name of the pod, which owns it. Only the operator writes it, and no decision of Alioth
// depends on it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=multitenantpodnetworkconfigs,singular=multitenantpodnetworkconfig,shortName=mtpnc
// +kubebuilder:printcolumn:name="PodNetworkInstance",type=string,JSONPath=`.spec.podNetworkInstance`
// +kubebuilder:printcolumn:name="PodNetwork",type=string,JSONPath=`.spec.podNetwork`
// +kubebuilder:printcolumn:name="PrimaryIP",type=string,JSONPath=`.status.primaryIP`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MultiTenantPodNetworkConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec multitenancyv1alpha1.PodNetworkChoice `json:"spec"`
	// +optional
	Status MultiTenantPodNetworkConfigStatus `json:"status,omitempty,omitzero"`
}

// MultiTenantPodNetworkConfigList is a list of MultiTenantPodNetworkConfigs.
// +kubebuilder:object:root=true
type MultiTenantPodNetworkConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MultiTenantPodNetworkConfig `json:"items"`
}

// NodeInfoStatus has facts that the daemon of a node knows about the machine.
type NodeInfoStatus struct {
	// VMUniqueID identifies the virtual machine: by SMBIOS, the cloud or the node's
	// configuration.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	VMUniqueID string `json:"vmUniqueID,omitempty"`
}

// NodeInfo describes the machine of a node. It has the name of the Node, which owns it. The
// daemon of the node writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=nodeinfo,singular=nodeinfo,shortName=ni
// +kubebuilder:printcolumn:name="VMUniqueID",type=string,JSONPath=`.status.vmUniqueID`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeInfo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

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
