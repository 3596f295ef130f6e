// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PodNetworkChoice is the choice that a pod asked for.
type PodNetworkChoice struct {
	// PodNetworkInstance is the name of the pod's PodNetworkInstance in its namespace, if it
	// asked for one.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	// +optional
	PodNetworkInstance string `json:"podNetworkInstance,omitempty"`
	// PodNetwork is the name of the PodNetwork, or of the first one of the instance.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	PodNetwork string `json:"podNetwork"`
}

// MultitenantPodNetworkConfigSpec names the pod and the objects that a config describes.
type MultitenantPodNetworkConfigSpec struct {
	PodNetworkChoice `json:",inline"`
	// PodName is the name of the pod, which the config has, too.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PodName string `json:"podName,omitempty"`
	// PodUID is the UID of the pod. It distinguishes the pod from an earlier pod of the same
	// name.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	PodUID string `json:"podUID,omitempty"`
	// IBMACAddresses are Ethernet addresses of InfiniBand devices. Alioth does not write
	// them.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=23
	// +listType=atomic
	// +optional
	IBMACAddresses []string `json:"IBMACAddresses,omitempty"`
	// ResourceClaims are names of the pod's ResourceClaims. Alioth does not write them.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	ResourceClaims []string `json:"resourceClaims,omitempty"`
}

// InfiniBandState is the state of an InfiniBand device.
// +kubebuilder:validation:Enum=Unprogrammed;Programming;Programmed;Unprogramming;Failed
type InfiniBandState string

// InterfaceInfo is an interface of the pod.
type InterfaceInfo struct {
	// NCID identifies the interface's address: the UID of its Address object.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	NCID string `json:"ncID,omitempty"`
	// PrimaryIP is the address, with /32 or /128.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	PrimaryIP string `json:"primaryIP,omitempty"`
	// MacAddress is the Ethernet address of the device.
	// +kubebuilder:validation:MaxLength=23
	// +optional
	MacAddress string `json:"macAddress,omitempty"`
	// GatewayIP is the gateway of the subnet.
	// +kubebuilder:validation:MaxLength=39
	// +optional
	GatewayIP string `json:"gatewayIP,omitempty"`
	// SubnetAddressSpace is the range of the subnet, in CIDR notation.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	SubnetAddressSpace string `json:"subnetAddressSpace,omitempty"`
	// DeviceType is the type of the device.
	// +optional
	DeviceType DeviceType `json:"deviceType,omitempty"`
	// AccelnetEnabled tells a CNI plugin to accelerate the device. Alioth does not write
	// it.
	// +optional
	AccelnetEnabled bool `json:"accelnetEnabled,omitempty"`
	// IBStatus is the state of an InfiniBand device. Alioth does not write it.
	// +optional
	IBStatus InfiniBandState `json:"ibStatus,omitempty"`
	// SharedNIC: the device is not for one pod alone. Alioth does not write it.
	// +optional
	SharedNIC bool `json:"sharedNic,omitempty"`
	// NetworkID is the networkID of the PodNetwork: the name of the VPC.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NetworkID string `json:"networkID,omitempty"`
	// SubnetGUID is the subnetGUID of the PodNetwork.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SubnetGUID string `json:"subnetGUID,omitempty"`
	// SubnetResourceID is the subnetResourceID of the PodNetwork.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	SubnetResourceID string `json:"subnetResourceID,omitempty"`
}

// PodNetworkConfigState is the progress of the pod's interfaces.
// +kubebuilder:validation:Enum=Ready;Pending;InternalError;PNINotFound;PNINotReady;NodeCapacityExceeded;IPsExhausted;Deleting
type PodNetworkConfigState string

// States of configs.
const (
	// ConfigReady: every interface has its address.
	ConfigReady PodNetworkConfigState = "Ready"
	// ConfigPending: the pod waits for the operator.
	ConfigPending PodNetworkConfigState = "Pending"
	// ConfigInternalError: the pod's request can't be served; its events have the cause.
	ConfigInternalError PodNetworkConfigState = "InternalError"
	// ConfigInstanceNotFound: the PodNetworkInstance does not exist.
	ConfigInstanceNotFound PodNetworkConfigState = "PNINotFound"
	// ConfigInstanceNotReady: the PodNetworkInstance or a PodNetwork is not Ready.
	ConfigInstanceNotReady PodNetworkConfigState = "PNINotReady"
	// ConfigNodeFull: the node has too few free devices.
	ConfigNodeFull PodNetworkConfigState = "NodeCapacityExceeded"
	// ConfigNoAddresses: all addresses are in use.
	ConfigNoAddresses PodNetworkConfigState = "IPsExhausted"
	// ConfigDeleting: the pod ends.
	ConfigDeleting PodNetworkConfigState = "Deleting"
)

// MultitenantPodNetworkConfigStatus reports the interfaces of a pod. Only the operator
// writes it.
type MultitenantPodNetworkConfigStatus struct {
	// NCID, PrimaryIP, MacAddress and GatewayIP are the older form of the first entry of
	// interfaceInfos.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	NCID string `json:"ncID,omitempty"`
	// PrimaryIP is the address of the first interface.
	// +kubebuilder:validation:MaxLength=43
	// +optional
	PrimaryIP string `json:"primaryIP,omitempty"`
	// MacAddress is the Ethernet address of the first interface.
	// +kubebuilder:validation:MaxLength=23
	// +optional
	MacAddress string `json:"macAddress,omitempty"`
	// GatewayIP is the gateway of the first interface.
	// +kubebuilder:validation:MaxLength=39
	// +optional
	GatewayIP string `json:"gatewayIP,omitempty"`
	// InterfaceInfos are the interfaces, in the order of the PodNetworkInstance.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	InterfaceInfos []InterfaceInfo `json:"interfaceInfos,omitempty"`
	// DefaultDenyACL is the defaultDenyACL of the PodNetworkInstance.
	// +optional
	DefaultDenyACL bool `json:"defaultDenyACL,omitempty"`
	// NodeName is the name of the pod's node.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// Status is the progress of the interfaces.
	// +optional
	Status PodNetworkConfigState `json:"status,omitempty"`
}

// MultitenantPodNetworkConfig reports the interfaces that a pod has in PodNetworks. It has
// the name of the pod, which owns it. Only the operator writes it, and no decision of Alioth
// depends on it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=multitenantpodnetworkconfigs,singular=multitenantpodnetworkconfig,shortName=mtpnc
// +kubebuilder:selectablefield:JSONPath=`.spec.podNetworkInstance`
// +kubebuilder:selectablefield:JSONPath=`.spec.podNetwork`
// +kubebuilder:selectablefield:JSONPath=`.spec.podName`
// +kubebuilder:selectablefield:JSONPath=`.status.status`
// +kubebuilder:selectablefield:JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="PodNetworkInstance",type=string,JSONPath=`.spec.podNetworkInstance`
// +kubebuilder:printcolumn:name="PodNetwork",type=string,JSONPath=`.spec.podNetwork`
// +kubebuilder:printcolumn:name="PodName",type=string,JSONPath=`.spec.podName`
// +kubebuilder:printcolumn:name="PodUID",type=string,priority=1,JSONPath=`.spec.podUID`
// +kubebuilder:printcolumn:name="Node",type=string,priority=1,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MultitenantPodNetworkConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MultitenantPodNetworkConfigSpec `json:"spec"`
	// +optional
	Status MultitenantPodNetworkConfigStatus `json:"status,omitempty,omitzero"`
}

// MultitenantPodNetworkConfigList is a list of MultitenantPodNetworkConfigs.
// +kubebuilder:object:root=true
type MultitenantPodNetworkConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MultitenantPodNetworkConfig `json:"items"`
}
