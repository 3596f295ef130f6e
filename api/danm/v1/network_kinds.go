// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DanmNet is a network for the pods of its namespace, all of whose properties its users
// set.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, the API of DANM"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=danmnets,singular=danmnet,shortName=dn;dnet
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.NetworkType`
// +kubebuilder:printcolumn:name="NetworkID",type=string,JSONPath=`.spec.NetworkID`
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.Options.host_device`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.Options.device_pool`,priority=1
// +kubebuilder:printcolumn:name="VLAN",type=integer,JSONPath=`.spec.Options.vlan`
// +kubebuilder:printcolumn:name="VXLAN",type=integer,JSONPath=`.spec.Options.vxlan`
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.spec.Options.cidr`
// +kubebuilder:printcolumn:name="Net6",type=string,JSONPath=`.spec.Options.net6`,priority=1
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.freeText`
// +kubebuilder:printcolumn:name="Total",type=string,JSONPath=`.status.totalText`,priority=1
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec.NetworkID) && self.spec.NetworkID.size() > 0",message="spec.NetworkID must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.AllowedTenants)",message="spec.AllowedTenants is for ClusterNetworks only: the network is for the pods of its namespace"
type DanmNet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkSpec   `json:"spec"`
	Status NetworkStatus `json:"status,omitempty"`
}

// DanmNetList is a list of DanmNets.
// +kubebuilder:object:root=true
type DanmNetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DanmNet `json:"items"`
}

// TenantNetwork is a network for the pods of its namespace. Properties of the nodes come
// from a TenantConfig.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, the API of DANM"
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=tenantnetworks,singular=tenantnetwork,shortName=tn;tnet
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.profile.networkType`
// +kubebuilder:printcolumn:name="NetworkID",type=string,JSONPath=`.status.profile.networkID`
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.status.profile.host_device`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.status.profile.device_pool`,priority=1
// +kubebuilder:printcolumn:name="VLAN",type=integer,JSONPath=`.status.profile.vlan`
// +kubebuilder:printcolumn:name="VXLAN",type=integer,JSONPath=`.status.profile.vxlan`
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.spec.Options.cidr`
// +kubebuilder:printcolumn:name="Net6",type=string,JSONPath=`.spec.Options.net6`,priority=1
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.freeText`
// +kubebuilder:printcolumn:name="Total",type=string,JSONPath=`.status.totalText`,priority=1
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.AllowedTenants)",message="spec.AllowedTenants is for ClusterNetworks only: the network is for the pods of its namespace"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.spec.Options) || (!has(self.spec.Options.vlan) && !has(self.spec.Options.vxlan))",optionalOldSelf=true,message="spec.Options.vlan and spec.Options.vxlan must not be set in a new TenantNetwork: it gets its number from the TenantConfig"
type TenantNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkSpec   `json:"spec"`
	Status NetworkStatus `json:"status,omitempty"`
}

// TenantNetworkList is a list of TenantNetworks.
// +kubebuilder:object:root=true
type TenantNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TenantNetwork `json:"items"`
}

// ClusterNetwork is a network for the pods of all namespaces, or of the namespaces in
// spec.AllowedTenants.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, the API of DANM"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=clusternetworks,singular=clusternetwork,shortName=cn;cnet
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.NetworkType`
// +kubebuilder:printcolumn:name="NetworkID",type=string,JSONPath=`.spec.NetworkID`
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.Options.host_device`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.Options.device_pool`,priority=1
// +kubebuilder:printcolumn:name="VLAN",type=integer,JSONPath=`.spec.Options.vlan`
// +kubebuilder:printcolumn:name="VXLAN",type=integer,JSONPath=`.spec.Options.vxlan`
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.spec.Options.cidr`
// +kubebuilder:printcolumn:name="Net6",type=string,JSONPath=`.spec.Options.net6`,priority=1
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.freeText`
// +kubebuilder:printcolumn:name="Total",type=string,JSONPath=`.status.totalText`,priority=1
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec.NetworkID) && self.spec.NetworkID.size() > 0",message="spec.NetworkID must be set"
type ClusterNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkSpec   `json:"spec"`
	Status NetworkStatus `json:"status,omitempty"`
}

// ClusterNetworkList is a list of ClusterNetworks.
// +kubebuilder:object:root=true
type ClusterNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterNetwork `json:"items"`
}
