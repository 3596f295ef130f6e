// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
)

// NodeNetworkConfigurationPolicy is the kind of package api/nmstate/v1 in an older version, with
// the same fields.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=nodenetworkconfigurationpolicies,singular=nodenetworkconfigurationpolicy,shortName=nncp
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.status=="True")].type`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="True")].reason`
type NodeNetworkConfigurationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec nmstatev1.NodeNetworkConfigurationPolicySpec `json:"spec,omitempty"`
	// +optional
	Status nmstatev1.NodeNetworkConfigurationPolicyStatus `json:"status,omitempty,omitzero"`
}

// NodeNetworkConfigurationPolicyList is a list of NodeNetworkConfigurationPolicies.
// +kubebuilder:object:root=true
type NodeNetworkConfigurationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeNetworkConfigurationPolicy `json:"items"`
}
