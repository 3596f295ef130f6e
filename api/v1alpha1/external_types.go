// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExternalPoolUse is the use of a pool's addresses.
// +kubebuilder:validation:Enum=LoadBalancer;ExternalIPs
type ExternalPoolUse string

const (
	// PoolForLoadBalancers is the use of a pool that gives addresses to Services of type
	// LoadBalancer.
	PoolForLoadBalancers ExternalPoolUse = "LoadBalancer"
	// PoolForExternalIPs is the use of a pool whose addresses the tenants may name
	// in spec.externalIPs of their Services. The network has to route them to nodes.
	PoolForExternalIPs ExternalPoolUse = "ExternalIPs"
)

// ExternalPoolSpec has the addresses of a pool and the tenants that may use them.
// +kubebuilder:validation:XValidation:rule="self.use == oldSelf.use",message="spec.use can't change: delete the pool and create another"
type ExternalPoolSpec struct {
	// CIDRs are the pool's addresses: CIDRs, single addresses, or ranges written first-last.
	// All of them may be used. They must not overlap another pool, service ranges, or the
	// ranges of the default VPC, nor contain an address of a node.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=80
	// +kubebuilder:validation:XValidation:rule="self.all(r, isIP(r) || isCIDR(r) || (r.split('-').size() == 2 && isIP(r.split('-')[0]) && isIP(r.split('-')[1]) && ip(r.split('-')[0]).family() == ip(r.split('-')[1]).family()))",message="each entry must be an address, a CIDR, or a range such as 192.0.2.10-192.0.2.19"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !isCIDR(r) || cidr(r).masked() == cidr(r))",message="a CIDR must not have host bits: give 192.0.2.8/29 for the range, or 192.0.2.9 for the address alone"
	// +listType=set
	CIDRs []string `json:"cidrs"`

	// AllowedTenants may use the pool. Empty means no tenant, "*" every tenant, "ns:*"
	// every namespace without a tenant label, and ns:<name> one such namespace.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(t, t in ['*', 'ns:*'] || !t.contains('*'))",message="the only patterns are '*', which means everybody, and 'ns:*', which means namespaces without a tenant label"
	// +kubebuilder:validation:items:Pattern=`^[!-~]+$`
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

// ServiceReference names a Service with its UID.
type ServiceReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// UID of the Service: a successor of the same name does not hold the address.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	UID string `json:"uid"`
}

// ExternalAddressSpec is one IP outside of every VPC, and its holder.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an ExternalAddress can't change: it is released by deleting it"
type ExternalAddressSpec struct {
	// IP in canonical form (RFC 5952 for IPv6).
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip.isCanonical(self)",message="must be an IP address in canonical form"
	// +kubebuilder:validation:XValidation:rule="!isIP(self) || ip(self).isGlobalUnicast() || ip(self).isLinkLocalUnicast()",message="must be the address of one host: no unspecified, loopback, multicast or broadcast address"
	IP string `json:"ip"`
	// Pool is the name of the ExternalPool that the address was taken from.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Pool string `json:"pool"`
	// Service that holds the address.
	Service ServiceReference `json:"service"`
}

// ExternalAddressStatus is the operator's decision about the address.
type ExternalAddressStatus struct {
	// Node is the name of the node that announces the address on the nodes' network;
	// empty while no node can.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Node string `json:"node,omitempty"`
}

// ExternalAddress is one IP on the nodes' network that leads to a Service: the claim of
// the IP, and the record of the node that announces it. Its creation is the allocation,
// as with Address.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=externaladdresses,singular=externaladdress,shortName=extaddr
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.spec.ip`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.node`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.service.namespace`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == (self.spec.ip.endsWith('::') ? self.spec.ip.replace(':', '-') + '0' : self.spec.ip.replace(':', '-'))",message="metadata.name must be <spec.ip>, with '-' for ':'"
type ExternalAddress struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ExternalAddressSpec   `json:"spec"`
	Status ExternalAddressStatus `json:"status,omitempty"`
}

// ExternalAddressList is a list of ExternalAddresses.
// +kubebuilder:object:root=true
type ExternalAddressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExternalAddress `json:"items"`
}

// ExternalAddressName returns the name of the ExternalAddress object of an IP,
// spelled as in the name of an Address: '-' for ':' and a trailing "::" as "--0".
func ExternalAddressName(ip netip.Addr) string { return spelled(ip) }

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
	// is the node port of a Service, or that the node itself listens at.
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

const (
	// HostAccessGrants is the name of the AdmissionGrants with the grants of HostAccess
	// objects.
	HostAccessGrants = "host-access"
	// ExternalIPGrants is the name of the AdmissionGrants with the grants of
	// ExternalPools with use: ExternalIPs.
	ExternalIPGrants = "external-ips"
	// TenantNetworkGrants is the name of the AdmissionGrants with the offer of the serving
	// TenantConfig to TenantNetworks.
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
	// Tenants that the pool allows, as in its spec.allowedTenants.
	// +listType=atomic
	Tenants []string `json:"tenants"`
}

// TenantNetworkGrant is the offer of the serving TenantConfig to TenantNetworks.
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
	// Tenants has the offers of the TenantConfig to single tenants.
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
// own, because the API server does not watch a built-in kind again after a time
// without a policy that uses it (docs/design/053).
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
	// TenantNetworks has the offer of the serving TenantConfig; not set while no
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
	register(&ExternalPool{}, &ExternalPoolList{})
	register(&ExternalAddress{}, &ExternalAddressList{})
	register(&HostAccess{}, &HostAccessList{})
	register(&AdmissionGrants{}, &AdmissionGrantsList{})
}
