// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ExternalPoolUse is the use of a pool's addresses.
// +kubebuilder:validation:Enum=LoadBalancer;ExternalIPs
type ExternalPoolUse string

const (
	// PoolForLoadBalancers is the use of a pool out of which Services of type
	// LoadBalancer get addresses.
	PoolForLoadBalancers ExternalPoolUse = "LoadBalancer"
	// PoolForExternalIPs is the use of a pool whose addresses the tenants may name
	// in spec.externalIPs of their Services. The network has to route them to nodes.
	PoolForExternalIPs ExternalPoolUse = "ExternalIPs"
)

// ExternalPoolSpec has the addresses of a pool and the tenants that may use them.
// +kubebuilder:validation:XValidation:rule="self.use == oldSelf.use",message="spec.use can't change: delete the pool and create another"
type ExternalPoolSpec struct {
	// CIDRs are the pool's addresses, all of which may be used: CIDRs, single
	// addresses, or ranges written first-last. They must not overlap those of
	// another pool, service ranges, the ranges of the default VPC, nor contain an
	// address of a node.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=80
	// +kubebuilder:validation:XValidation:rule="self.all(r, isIP(r) || isCIDR(r) || (r.split('-').size() == 2 && isIP(r.split('-')[0]) && isIP(r.split('-')[1]) && ip(r.split('-')[0]).family() == ip(r.split('-')[1]).family()))",message="each entry must be an address, a CIDR, or a range such as 192.0.2.10-192.0.2.19"
	// +listType=set
	CIDRs []string `json:"cidrs"`

	// AllowedTenants may use the pool. Empty means no tenant, "*" every tenant, "ns:*"
	// every namespace without a tenant label, and ns:<name> one such namespace.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(t, t in ['*', 'ns:*'] || !t.contains('*'))",message="the only patterns are '*', which means everybody, and 'ns:*', which means namespaces without a tenant label"
	// +listType=set
	// +optional
	AllowedTenants []string `json:"allowedTenants,omitempty"`

	// Use is the use of the addresses. With LoadBalancer (default) they are assigned to
	// Services of class alioth.dev/vpc with the annotation alioth.dev/load-balancer:
	// External, and nodes announce them. With ExternalIPs tenants may name them in
	// spec.externalIPs.
	// +kubebuilder:default=LoadBalancer
	// +optional
	Use ExternalPoolUse `json:"use,omitempty"`
}

// ExternalPoolStatus is the observed state of a pool.
type ExternalPoolStatus struct {
	// Used is the number of assigned addresses.
	// +optional
	Used int64 `json:"used"`
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ExternalPool is a pool of addresses outside of every VPC that lead into VPCs. The right
// to write it controls the tenants that are reachable from outside, and their addresses.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=externalpools,singular=externalpool
// +kubebuilder:printcolumn:name="CIDRs",type=string,JSONPath=`.spec.cidrs`
// +kubebuilder:printcolumn:name="Use",type=string,JSONPath=`.spec.use`
// +kubebuilder:printcolumn:name="Tenants",type=string,JSONPath=`.spec.allowedTenants`
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExternalPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ExternalPoolSpec   `json:"spec"`
	Status ExternalPoolStatus `json:"status,omitempty"`
}

// ExternalPoolList is a list of ExternalPools.
// +kubebuilder:object:root=true
type ExternalPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExternalPool `json:"items"`
}

func init() {
	register(&ExternalPool{}, &ExternalPoolList{})
}
