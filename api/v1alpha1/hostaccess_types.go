// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostAccessSpec grants tenants the use of ports of nodes and of the nodes' network.
type HostAccessSpec struct {
	// AllowedTenants get the grant. Empty means no tenant, "*" every tenant. Namespaces
	// without a tenant label need no grant and can't be named.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.all(t, t == '*' || t.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$'))",message="each entry must be a tenant, as in the label alioth.dev/tenant, or '*', which means every tenant; namespaces without the label need no HostAccess"
	// +listType=set
	// +optional
	AllowedTenants []string `json:"allowedTenants,omitempty"`

	// HostPorts are the ports of the nodes that pods of these tenants may request as
	// hostPort: numbers or ranges, with the suffix "/TCP", "/UDP" or "/SCTP" for that
	// protocol only; for example 8080, 30100-30199 or 53/UDP. No pod gets a port that
	// is the node port of a Service, or at which the node itself listens.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.all(p, p.matches('^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?(/(TCP|UDP|SCTP))?$') && p.split('/')[0].split('-').all(n, int(n) <= 65535))",message="each entry must be a port or a range of ports between 1 and 65535, with a protocol or without, for example 8080, 30100-30199 or 53/UDP"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !p.matches('^[0-9]{1,5}-[0-9]{1,5}(/.*)?$') || int(p.split('/')[0].split('-')[0]) <= int(p.split('/')[0].split('-')[1]))",message="the first port of a range must not be above its last"
	// +listType=set
	// +optional
	HostPorts []string `json:"hostPorts,omitempty"`

	// HostNetwork lets pods of these tenants use the network of their node
	// (hostNetwork: true). Such a pod receives all packets of the node and can send any
	// packet: grant it only to tenants that you trust with the nodes.
	// +optional
	HostNetwork bool `json:"hostNetwork,omitempty"`
}

// HostAccessStatus is the observed state of a grant.
type HostAccessStatus struct {
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready. It is true once admission uses the object.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HostAccess grants pods in namespaces with a tenant label the use of ports of their node
// (hostPort), or of the node's network. Without a grant they have neither. The cluster's
// operators write it. The end of a grant closes the ports of running pods too; running
// pods on the nodes' network do not change.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=hostaccesses,singular=hostaccess
// +kubebuilder:printcolumn:name="Tenants",type=string,JSONPath=`.spec.allowedTenants`
// +kubebuilder:printcolumn:name="HostPorts",type=string,JSONPath=`.spec.hostPorts`
// +kubebuilder:printcolumn:name="HostNetwork",type=boolean,JSONPath=`.spec.hostNetwork`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type HostAccess struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   HostAccessSpec   `json:"spec"`
	Status HostAccessStatus `json:"status,omitempty"`
}

// HostAccessList is a list of HostAccess objects.
// +kubebuilder:object:root=true
type HostAccessList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostAccess `json:"items"`
}

func init() {
	register(&HostAccess{}, &HostAccessList{})
}
