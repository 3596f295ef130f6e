// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SharedServiceSpec names a Service.
type SharedServiceSpec struct {
	// Namespace of the Service.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// Name of the Service. It may be created after the SharedService.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// SharedServiceStatus is the observed state of the Service.
type SharedServiceStatus struct {
	// ClusterIPs are the Service's addresses, at which pods of every VPC reach
	// it.
	// +listType=atomic
	// +optional
	ClusterIPs []string `json:"clusterIPs,omitempty"`
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SharedService makes a Service of the default VPC reachable from every VPC, at
// its ClusterIPs and by its usual name. The right to write it controls the Services that
// all tenants reach.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=sharedservices,singular=sharedservice
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.namespace`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="ClusterIPs",type=string,JSONPath=`.status.clusterIPs`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SharedService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SharedServiceSpec   `json:"spec"`
	Status SharedServiceStatus `json:"status,omitempty"`
}

// SharedServiceList is a list of SharedServices.
// +kubebuilder:object:root=true
type SharedServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SharedService `json:"items"`
}

func init() {
	register(&SharedService{}, &SharedServiceList{})
}
