// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// HostAccessGrants is the name of the AdmissionGrants that hold what HostAccess
	// objects grant.
	HostAccessGrants = "host-access"
	// ExternalIPGrants is the name of the AdmissionGrants that hold what
	// ExternalPools with use: ExternalIPs grant.
	ExternalIPGrants = "external-ips"
)

// HostPortRange is a range of ports of nodes.
type HostPortRange struct {
	// Protocol of the ports.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol string `json:"protocol"`
	// First is the lowest port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	First int32 `json:"first"`
	// Last is the highest port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Last int32 `json:"last"`
}

// HostGrant is what the pods of a tenant may have of their nodes.
type HostGrant struct {
	// HostNetwork reports whether hostNetwork: true is granted.
	// +optional
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// Ports are the granted host ports.
	// +listType=atomic
	// +optional
	Ports []HostPortRange `json:"ports,omitempty"`
}

// ExternalIPGrant is what one ExternalPool grants.
type ExternalIPGrant struct {
	// Pool is the name of the ExternalPool.
	Pool string `json:"pool"`
	// CIDRs are the granted addresses.
	// +listType=atomic
	CIDRs []string `json:"cidrs"`
	// Tenants are those that the pool allows, as in its spec.allowedTenants.
	// +listType=atomic
	Tenants []string `json:"tenants"`
}

// AdmissionGrants is the parameter of an admission policy of Alioth: the sum of what
// objects such as HostAccess grant, which a policy can't compute by itself. The
// operator alone writes these objects, one for each policy. They are of a kind of
// their own because the API server does not begin to watch a kind that is built into
// it again once no policy has used it for a time (docs/design/053).
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=admissiongrants,singular=admissiongrants
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AdmissionGrants struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// HostAccess is what tenants may have of nodes, by the value of the label
	// alioth.dev/tenant; "*" stands for every tenant.
	// +optional
	HostAccess map[string]HostGrant `json:"hostAccess,omitempty"`
	// ExternalIPs is what ExternalPools grant to Services.
	// +listType=map
	// +listMapKey=pool
	// +optional
	ExternalIPs []ExternalIPGrant `json:"externalIPs,omitempty"`
}

// AdmissionGrantsList is a list of AdmissionGrants.
// +kubebuilder:object:root=true
type AdmissionGrantsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AdmissionGrants `json:"items"`
}

func init() {
	register(&AdmissionGrants{}, &AdmissionGrantsList{})
}
