// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
)

// DanmNet is the DanmNet of package api/danm/v1 in this group.
// +kubebuilder:object:root=true
type DanmNet danmv1.DanmNet

// DanmNetList is a list of DanmNets.
// +kubebuilder:object:root=true
type DanmNetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DanmNet `json:"items"`
}

// TenantNetwork is the TenantNetwork of package api/danm/v1 in this group.
// +kubebuilder:object:root=true
type TenantNetwork danmv1.TenantNetwork

// TenantNetworkList is a list of TenantNetworks.
// +kubebuilder:object:root=true
type TenantNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TenantNetwork `json:"items"`
}

// ClusterNetwork is the ClusterNetwork of package api/danm/v1 in this group.
// +kubebuilder:object:root=true
type ClusterNetwork danmv1.ClusterNetwork

// ClusterNetworkList is a list of ClusterNetworks.
// +kubebuilder:object:root=true
type ClusterNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterNetwork `json:"items"`
}

// TenantConfig is the TenantConfig of package api/danm/v1 in this group.
// +kubebuilder:object:root=true
type TenantConfig danmv1.TenantConfig

// TenantConfigList is a list of TenantConfigs.
// +kubebuilder:object:root=true
type TenantConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TenantConfig `json:"items"`
}
