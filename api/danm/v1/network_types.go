// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Gateway is the address of a gateway of routes, of the family of the list that it is in.
// +kubebuilder:validation:MaxLength=39
type Gateway string

// NetworkSpec is the desired state of a network: the same for DanmNet, TenantNetwork and
// ClusterNetwork. A backend is dynamic if NetworkType is ipvlan, macvlan or sriov, or
// empty.
//
// The limits of NetworkID come from the DANM user guide (rule 11 of DanmNets) and from
// DANM 4.3: the name of a host link is <NetworkID>.<VLAN>, at most 15 characters.
// +kubebuilder:validation:XValidation:rule="!has(self.NetworkID) || self.NetworkID.size() <= 11 || (has(self.NetworkType) && self.NetworkType.size() > 0 && !(self.NetworkType.lowerAscii() in ['ipvlan', 'macvlan', 'sriov']))",message="NetworkID must not be longer than 11 characters with a dynamic NetworkType (ipvlan, macvlan, sriov, or none)"
// +kubebuilder:validation:XValidation:rule="!has(self.NetworkID) || self.NetworkID.size() != 11 || !has(self.Options) || (!has(self.Options.vlan) && !has(self.Options.vxlan)) || (has(self.NetworkType) && self.NetworkType.size() > 0 && !(self.NetworkType.lowerAscii() in ['ipvlan', 'macvlan', 'sriov']))",message="NetworkID must not be longer than 10 characters in a network with a vlan or vxlan and a dynamic NetworkType (ipvlan, macvlan, sriov, or none)"
// +kubebuilder:validation:XValidation:rule="!has(self.NetworkID) || !self.NetworkID.matches('^(alv|alioth)') || (has(self.NetworkType) && self.NetworkType.size() > 0 && !(self.NetworkType.lowerAscii() in ['ipvlan', 'macvlan', 'sriov']))",message="NetworkID must not begin with alv or alioth with a dynamic NetworkType (ipvlan, macvlan, sriov, or none), because the names of Alioth's devices on the nodes do"
// +kubebuilder:validation:XValidation:rule="!has(self.NetworkType) || self.NetworkType.lowerAscii() != 'sriov' || (has(self.Options) && has(self.Options.device_pool) && self.Options.device_pool.size() > 0)",message="NetworkType sriov needs Options.device_pool, the name of the resource that has the devices"
// +kubebuilder:validation:XValidation:rule="!has(self.NetworkType) || self.NetworkType.lowerAscii() != 'sriov' || !has(self.Options) || !has(self.Options.host_device) || self.Options.host_device.size() == 0",message="NetworkType sriov has no Options.host_device: its devices are from Options.device_pool"
// +kubebuilder:validation:XValidation:rule="!has(self.NetworkType) || self.NetworkType.lowerAscii() != 'sriov' || !has(self.Options) || !has(self.Options.vxlan)",message="NetworkType sriov has no Options.vxlan, because its packets do not pass the node: use Options.vlan, or another type"
type NetworkSpec struct {
	// NetworkID names the CNI configuration of a static backend
	// (<cniDir>/<NetworkID>.conf), and the host link of a network with a VLAN or VXLAN.
	// DanmNets and ClusterNetworks need one. The NetworkID of a TenantConfig precedes the
	// NetworkID of a TenantNetwork.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_][-A-Za-z0-9_.]*)?$`
	// +optional
	NetworkID string `json:"NetworkID,omitempty"`
	// NetworkType is the backend: ipvlan (default), macvlan or sriov, or the name of a
	// CNI plugin, which is called a static backend. Upper and lower case are equal.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_][-A-Za-z0-9_.]*)?$`
	// +optional
	NetworkType string `json:"NetworkType,omitempty"`
	// AllowedTenants are the namespaces whose pods may use a ClusterNetwork; all of them
	// if the list is empty.
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=atomic
	// +optional
	AllowedTenants []string `json:"AllowedTenants,omitempty"`
	// Options of the network.
	// +optional
	Options NetworkOptions `json:"Options,omitempty"`
}

// NetworkOptions are the properties of a network. CIDRs may have host bits, as in DANM.
//
// The rules that compare IPv6 addresses, or read the keys of routes, are in an admission
// policy, because they exceed the limit of costs of a schema.
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || ((!has(self.alloc) || self.alloc.size() == 0) && (!has(self.alloc6) || self.alloc6.size() == 0))",optionalOldSelf=true,message="alloc and alloc6 must be empty in a new network: Alioth keeps its allocations as Address objects; leave them out"
// +kubebuilder:validation:XValidation:rule="!has(self.vlan) || !has(self.vxlan)",message="vlan and vxlan exclude each other"
// +kubebuilder:validation:XValidation:rule="!has(self.device_pool) || self.device_pool.size() == 0 || !has(self.host_device) || self.host_device.size() == 0",message="device_pool and host_device exclude each other"
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || self.routes.size() == 0 || (has(self.cidr) && self.cidr.size() > 0)",message="routes need a cidr, which their gateways are in"
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || !has(self.cidr) || !isCIDR(self.cidr) || self.routes.all(r, isIP(self.routes[r]) && cidr(self.cidr).containsIP(self.routes[r]))",message="each gateway of routes must be an address inside cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.routes6) || self.routes6.size() == 0 || (has(self.net6) && self.net6.size() > 0)",message="routes6 need a net6, which their gateways are in"
// +kubebuilder:validation:XValidation:rule="!has(self.routes6) || !has(self.net6) || !isCIDR(self.net6) || self.routes6.all(r, isIP(self.routes6[r]) && cidr(self.net6).containsIP(self.routes6[r]))",message="each gateway of routes6 must be an address inside net6"
// +kubebuilder:validation:XValidation:rule="!has(self.allocation_pool) || [has(self.allocation_pool.start) && self.allocation_pool.start.size() > 0, has(self.allocation_pool.end) && self.allocation_pool.end.size() > 0].all(set, !set) || (has(self.cidr) && self.cidr.size() > 0)",message="allocation_pool needs a cidr, which it is a part of"
// +kubebuilder:validation:XValidation:rule="!has(self.allocation_pool) || !has(self.allocation_pool.start) || self.allocation_pool.start.size() == 0 || !has(self.cidr) || !isCIDR(self.cidr) || (isIP(self.allocation_pool.start) && cidr(self.cidr).containsIP(self.allocation_pool.start))",message="allocation_pool.start must be an address inside cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.allocation_pool) || !has(self.allocation_pool.end) || self.allocation_pool.end.size() == 0 || !has(self.cidr) || !isCIDR(self.cidr) || (isIP(self.allocation_pool.end) && cidr(self.cidr).containsIP(self.allocation_pool.end))",message="allocation_pool.end must be an address inside cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.allocation_pool_v6) || [has(self.allocation_pool_v6.cidr) && self.allocation_pool_v6.cidr.size() > 0, has(self.allocation_pool_v6.start) && self.allocation_pool_v6.start.size() > 0, has(self.allocation_pool_v6.end) && self.allocation_pool_v6.end.size() > 0].all(set, !set) || (has(self.net6) && self.net6.size() > 0)",message="allocation_pool_v6 needs a net6, which it is a part of"
// +kubebuilder:validation:XValidation:rule="!has(self.allocation_pool_v6) || !has(self.allocation_pool_v6.cidr) || !isCIDR(self.allocation_pool_v6.cidr) || !has(self.net6) || !isCIDR(self.net6) || cidr(self.net6).containsCIDR(self.allocation_pool_v6.cidr)",message="allocation_pool_v6.cidr must be a part of net6"
// +kubebuilder:validation:XValidation:rule="!has(self.allocation_pool_v6) || !has(self.allocation_pool_v6.start) || self.allocation_pool_v6.start.size() == 0 || !has(self.net6) || !isCIDR(self.net6) || (isIP(self.allocation_pool_v6.start) && cidr(self.net6).containsIP(self.allocation_pool_v6.start) && (!has(self.allocation_pool_v6.cidr) || !isCIDR(self.allocation_pool_v6.cidr) || cidr(self.allocation_pool_v6.cidr).containsIP(self.allocation_pool_v6.start)))",message="allocation_pool_v6.start must be an address inside net6 and allocation_pool_v6.cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.allocation_pool_v6) || !has(self.allocation_pool_v6.end) || self.allocation_pool_v6.end.size() == 0 || !has(self.net6) || !isCIDR(self.net6) || (isIP(self.allocation_pool_v6.end) && cidr(self.net6).containsIP(self.allocation_pool_v6.end) && (!has(self.allocation_pool_v6.cidr) || !isCIDR(self.allocation_pool_v6.cidr) || cidr(self.allocation_pool_v6.cidr).containsIP(self.allocation_pool_v6.end)))",message="allocation_pool_v6.end must be an address inside net6 and allocation_pool_v6.cidr"
// +kubebuilder:validation:XValidation:rule="!has(self.mtu) || self.mtu == 0 || self.mtu >= 1280 || !has(self.net6) || self.net6.size() == 0",message="mtu must be at least 1280 in a network with net6 (RFC 8200)"
type NetworkOptions struct {
	// HostDevice is the parent device on the nodes, for ipvlan and macvlan.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_][-A-Za-z0-9_.]*)?$`
	// +optional
	HostDevice string `json:"host_device,omitempty"`
	// DevicePool is the name of the extended resource that has the devices, for sriov:
	// a domain, a slash and a name.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	// +optional
	DevicePool string `json:"device_pool,omitempty"`
	// VXLAN is the VXLAN network identifier of the network's host links (RFC 7348), 1
	// to 16777214.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777214
	// +optional
	VXLAN int32 `json:"vxlan,omitempty"`
	// VLAN is the VLAN ID of the network's host links (IEEE 802.1Q), 1 to 4094.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	// +optional
	VLAN int32 `json:"vlan,omitempty"`
	// ContainerPrefix starts the names of the interfaces in pods; eth by default. It has
	// at most 13 characters, so that a number of two digits fits behind it.
	// +kubebuilder:validation:MaxLength=13
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_][-A-Za-z0-9_.]*)?$`
	// +optional
	ContainerPrefix string `json:"container_prefix,omitempty"`
	// CIDR is the IPv4 range, /8 to /30. Without it the network has no IPv4 addresses.
	// A pool in a /31 or /32 would be empty, because the network and the broadcast
	// address are in no pool.
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || (isCIDR(self) && cidr(self).ip().family() == 4)",message="cidr must be an IPv4 range in CIDR notation, for example 10.0.0.0/24"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).ip().family() != 4 || (cidr(self).prefixLength() >= 8 && cidr(self).prefixLength() <= 30)",message="the prefix length of cidr must be 8 to 30"
	// +optional
	CIDR string `json:"cidr,omitempty"`
	// AllocationPool is the part of CIDR that dynamic addresses are from.
	// +optional
	AllocationPool *AllocationPool `json:"allocation_pool,omitempty"`
	// Alloc is the allocation record of DANM. Alioth keeps allocations as Address
	// objects, and refuses a network that is created with a record.
	// +optional
	Alloc string `json:"alloc,omitempty"`
	// Net6 is the IPv6 range, at most /126. Without it the network has no IPv6
	// addresses.
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || (isCIDR(self) && cidr(self).ip().family() == 6)",message="net6 must be an IPv6 range in CIDR notation, for example 2001:db8:0:1::/64"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).ip().family() != 6 || cidr(self).prefixLength() <= 126",message="the prefix length of net6 must be at most 126"
	// +optional
	Net6 string `json:"net6,omitempty"`
	// AllocationPoolV6 is the part of Net6 that dynamic addresses are from. Without it
	// a dynamic address has the EUI-64 of the interface's MAC (RFC 4291, appendix A).
	// +optional
	AllocationPoolV6 *AllocationPoolV6 `json:"allocation_pool_v6,omitempty"`
	// Alloc6 is Alloc for IPv6.
	// +optional
	Alloc6 string `json:"alloc6,omitempty"`
	// Routes are IPv4 routes of the pods: destination to gateway.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Routes map[string]Gateway `json:"routes,omitempty"`
	// Routes6 are IPv6 routes of the pods: destination to gateway.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Routes6 map[string]Gateway `json:"routes6,omitempty"`
	// RTTables is the routing table of the routes that pods request as proutes and
	// proutes6. It is not one of the kernel's own tables: each packet looks up 253
	// (default), 254 (main) and 255 (local), whatever its source address is.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self < 253 || self > 255",message="rt_tables must not be 253, 254 or 255, which are the kernel's own tables: use another number, for example 100"
	// +optional
	RTTables int32 `json:"rt_tables,omitempty"`
	// MTU of the pods' interfaces in bytes, 68 (RFC 791) to 65535, with Net6 at least
	// 1280; by default the MTU of the parent device.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 68",message="mtu must be 68 to 65535, or 0 for the MTU of the parent device"
	// +optional
	MTU int32 `json:"mtu,omitempty"`
}

// AllocationPool is a range of IPv4 addresses, both ends included. End is above Start (the
// DANM user guide's rule 9 has the names in the wrong order).
// +kubebuilder:validation:XValidation:rule="!has(self.start) || !has(self.end) || !isIP(self.start) || !isIP(self.end) || ip(self.start).family() != 4 || ip(self.end).family() != 4 || int(self.start.split('.')[0]) * 16777216 + int(self.start.split('.')[1]) * 65536 + int(self.start.split('.')[2]) * 256 + int(self.start.split('.')[3]) < int(self.end.split('.')[0]) * 16777216 + int(self.end.split('.')[1]) * 65536 + int(self.end.split('.')[2]) * 256 + int(self.end.split('.')[3])",message="allocation_pool.end must be above allocation_pool.start"
type AllocationPool struct {
	// Start is the first address; by default the address after the network address.
	// +kubebuilder:validation:MaxLength=15
	// +optional
	Start string `json:"start,omitempty"`
	// End is the last address; by default the address before the broadcast address.
	// +kubebuilder:validation:MaxLength=15
	// +optional
	End string `json:"end,omitempty"`
	// LastIP is written by DANM. Alioth ignores it.
	// +optional
	LastIP string `json:"lastIp,omitempty"`
}

// AllocationPoolV6 is a range of IPv6 addresses, both ends included. End is above Start.
type AllocationPoolV6 struct {
	// CIDR is a part of Net6, at most /126. The pool has only its addresses.
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || (isCIDR(self) && cidr(self).ip().family() == 6)",message="allocation_pool_v6.cidr must be an IPv6 range in CIDR notation, for example 2001:db8:0:1::/112"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).prefixLength() <= 126",message="the prefix length of allocation_pool_v6.cidr must be at most 126"
	// +optional
	CIDR string `json:"cidr,omitempty"`
	// Start is the first address.
	// +kubebuilder:validation:MaxLength=39
	// +optional
	Start string `json:"start,omitempty"`
	// End is the last address.
	// +kubebuilder:validation:MaxLength=39
	// +optional
	End string `json:"end,omitempty"`
	// LastIP is written by DANM. Alioth ignores it.
	// +optional
	LastIP string `json:"lastIp,omitempty"`
}

// NetworkStatus is the observed state of a network. Its figures are written in batches
// and may lag behind by some seconds.
type NetworkStatus struct {
	// Used is the number of addresses that pods hold, all families together.
	// +optional
	Used int64 `json:"used"`
	// Free is the number of addresses that a pod can still get dynamically, of the
	// family with the fewest; at most 2^53.
	// +optional
	Free int64 `json:"free"`
	// Total is the number of addresses that pods can get dynamically, of the family
	// with the fewest; at most 2^53.
	// +optional
	Total int64 `json:"total"`
	// FreeText and TotalText are Free and Total for people: >1e15 in place of a larger number.
	// +optional
	FreeText string `json:"freeText,omitempty"`
	// +optional
	TotalText string `json:"totalText,omitempty"`
	// Pods is the number of pods with an interface in the network. Pods that are gone
	// count until their nodes have released them.
	// +optional
	Pods int64 `json:"pods"`
	// PodNames are some of the pods that are there, as namespace/name. While there are
	// any, a deletion of the network is refused.
	// +listType=atomic
	// +optional
	PodNames []string `json:"podNames,omitempty"`
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Profile has the values that the TenantConfig gives a TenantNetwork. The operator
	// writes nothing into the spec, so that a manifest can be applied again.
	// +optional
	Profile *NetworkProfile `json:"profile,omitempty"`
	// Conditions: Ready, NameConflict.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NetworkProfile has the values that a TenantNetwork gets from the TenantConfig.
type NetworkProfile struct {
	// NetworkType is the type that the profile is for.
	// +optional
	NetworkType string `json:"networkType,omitempty"`
	// NetworkID is the name of the plugin's configuration file, or of the host link.
	// +optional
	NetworkID string `json:"networkID,omitempty"`
	// NetworkIDGiven: the NetworkID comes from the TenantConfig. It precedes spec.NetworkID.
	// +optional
	NetworkIDGiven bool `json:"networkIDGiven,omitempty"`
	// HostDevice is the parent device on the nodes.
	// +optional
	HostDevice string `json:"host_device,omitempty"`
	// DevicePool is the extended resource that has the devices.
	// +optional
	DevicePool string `json:"device_pool,omitempty"`
	// VLAN is the VLAN ID of the host links, 1 to 4094.
	// +optional
	VLAN int32 `json:"vlan,omitempty"`
	// VXLAN is the VXLAN network identifier of the host links, 1 to 16777214.
	// +optional
	VXLAN int32 `json:"vxlan,omitempty"`
}
