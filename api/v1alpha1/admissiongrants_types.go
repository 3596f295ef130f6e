// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// HostAccessGrants is the name of the AdmissionGrants with the grants of HostAccess
	// objects.
	HostAccessGrants = "host-access"
	// ExternalIPGrants is the name of the AdmissionGrants with the grants of
	// ExternalPools with use: ExternalIPs.
	ExternalIPGrants = "external-ips"
	// TenantNetworkGrants is the name of the AdmissionGrants with what the serving
	// TenantConfig offers to TenantNetworks.
	TenantNetworkGrants = "tenant-networks"
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

// HostGrant lists the ports and networks of nodes that a tenant's pods may use.
type HostGrant struct {
	// HostNetwork reports whether hostNetwork: true is granted.
	// +optional
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// Ports are the granted host ports.
	// +listType=atomic
	// +optional
	Ports []HostPortRange `json:"ports,omitempty"`
}

// ExternalIPGrant is the grant of one ExternalPool.
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

// TenantNetworkGrant is what the serving TenantConfig offers to TenantNetworks.
type TenantNetworkGrant struct {
	// TenantConfig is the name of the serving TenantConfig.
	TenantConfig string `json:"tenantConfig"`
	// Devices are the names of hostDevices for all tenants that are devices of nodes.
	// +listType=atomic
	// +optional
	Devices []string `json:"devices,omitempty"`
	// DevicePools are the names of hostDevices for all tenants that are pools of devices.
	// +listType=atomic
	// +optional
	DevicePools []string `json:"devicePools,omitempty"`
	// Tenants have what the TenantConfig offers to single tenants.
	// +listType=map
	// +listMapKey=tenant
	// +optional
	Tenants []TenantDevices `json:"tenants,omitempty"`
	// NetworkTypes are the keys of networkIds, in lower case.
	// +listType=atomic
	// +optional
	NetworkTypes []string `json:"networkTypes,omitempty"`
}

// TenantDevices are hostDevices of the serving TenantConfig for one tenant.
type TenantDevices struct {
	// Tenant is the value of the label alioth.dev/tenant, or ns:<namespace>.
	Tenant string `json:"tenant"`
	// Devices are the names of hostDevices that are devices of nodes.
	// +listType=atomic
	// +optional
	Devices []string `json:"devices,omitempty"`
	// DevicePools are the names of hostDevices that are pools of devices.
	// +listType=atomic
	// +optional
	DevicePools []string `json:"devicePools,omitempty"`
}

// AdmissionGrants is the parameter of an admission policy of Alioth: the sum of the
// grants of objects such as HostAccess, which a policy can't compute by itself. Only
// the operator writes these objects, one for each policy. They have a kind of their
// own, because the API server does not watch a built-in kind again after a time in
// which no policy has used it (docs/design/053).
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=admissiongrants,singular=admissiongrants
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AdmissionGrants struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// HostAccess has the grants of tenants on nodes, by the value of the label
	// alioth.dev/tenant; "*" means every tenant.
	// +optional
	HostAccess map[string]HostGrant `json:"hostAccess,omitempty"`
	// ExternalIPs has the grants of ExternalPools to Services.
	// +listType=map
	// +listMapKey=pool
	// +optional
	ExternalIPs []ExternalIPGrant `json:"externalIPs,omitempty"`
	// TenantNetworks has what the serving TenantConfig offers; not set while no
	// TenantConfig serves.
	// +optional
	TenantNetworks *TenantNetworkGrant `json:"tenantNetworks,omitempty"`
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
