// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostAccessSpec is what tenants may have of the nodes.
type HostAccessSpec struct {
	// AllowedTenants have what the object grants. Empty means nobody; "*" means
	// everybody. Namespaces without a tenant label need no grant and can't be
	// named.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.all(t, t == '*' || t.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$'))",message="each entry must be a tenant, as in the label alioth.dev/tenant, or '*', which means every tenant; namespaces without the label need no HostAccess"
	// +listType=set
	// +optional
	AllowedTenants []string `json:"allowedTenants,omitempty"`

	// HostPorts are the ports of the nodes that pods of these tenants may ask for
	// as hostPort: numbers or ranges, with "/TCP", "/UDP" or "/SCTP" behind them
	// for that protocol alone; for example 8080, 30100-30199 or 53/UDP. A port
	// that is the node port of a Service, or at which the node itself listens, no
	// pod gets.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.all(p, p.matches('^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?(/(TCP|UDP|SCTP))?$') && p.split('/')[0].split('-').all(n, int(n) <= 65535))",message="each entry must be a port or a range of ports between 1 and 65535, with a protocol or without, for example 8080, 30100-30199 or 53/UDP"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !p.matches('^[0-9]{1,5}-[0-9]{1,5}(/.*)?$') || int(p.split('/')[0].split('-')[0]) <= int(p.split('/')[0].split('-')[1]))",message="the first port of a range must not be above its last"
	// +listType=set
	// +optional
	HostPorts []string `json:"hostPorts,omitempty"`

	// HostNetwork lets pods of these tenants be on the network of their node
	// (hostNetwork: true). Such a pod sees and sends what the node does: grant it
	// to tenants alone that you would give the nodes themselves.
	// +optional
	HostNetwork bool `json:"hostNetwork,omitempty"`
}

// HostAccessStatus is what Alioth observed of a grant.
type HostAccessStatus struct {
	// ObservedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready. It is true once admission goes by the object.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HostAccess grants pods in namespaces with a tenant label what they have of their
// nodes: ports (hostPort), or the nodes' network itself. Without a grant they have
// neither. It is the cluster's operators that write it. A grant that ends closes the
// ports of running pods, too; pods on the nodes' network run on.
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
