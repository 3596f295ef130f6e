// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VNIType is the kind of the numbers in a range.
// +kubebuilder:validation:Enum="";vlan;vxlan
type VNIType string

const (
	// VNITypeVLAN is the type of VLAN IDs (IEEE 802.1Q), 1 to 4094.
	VNITypeVLAN VNIType = "vlan"
	// VNITypeVXLAN is the type of VXLAN network identifiers (RFC 7348).
	VNITypeVXLAN VNIType = "vxlan"
)

// HostDevice is a device, or a pool of devices, that TenantNetworks may use.
// +kubebuilder:validation:XValidation:rule="(has(self.vniType) && self.vniType.size() > 0) == (has(self.vniRange) && self.vniRange.size() > 0)",message="vniType and vniRange must be set together"
// +kubebuilder:validation:XValidation:rule="!has(self.vniType) || !has(self.vniRange) || !self.vniRange.matches('^[0-9,-]*$') || self.vniRange.split(',').all(part, part.split('-').all(n, n.size() == 0 || n.size() > 8 || (int(n) >= 1 && int(n) <= (self.vniType == 'vlan' ? 4094 : 16777214))))",message="the numbers in vniRange must be 1 to 4094 with vniType vlan, 1 to 16777214 with vxlan"
type HostDevice struct {
	// Name of a network device of the nodes, or, with a slash, of an extended resource
	// (a pool of devices).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_][-A-Za-z0-9_.]{0,14}|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$`
	Name string `json:"name"`
	// VNIType and VNIRange are set together: each TenantNetwork gets a number of its
	// own from the range.
	// +optional
	VNIType VNIType `json:"vniType,omitempty"`
	// VNIRange is a list of numbers and ranges, for example 2000-2500,2601. DANM accepts
	// 0, which means no number at all; Alioth does not.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^([0-9]{1,8}(-[0-9]{1,8})?(,[0-9]{1,8}(-[0-9]{1,8})?)*)?$`
	// +optional
	VNIRange string `json:"vniRange,omitempty"`
	// Tenants may use the entry, by the value of their label alioth.dev/tenant, or ns:<name>
	// for a namespace without one. None means all tenants. The numbers of such an entry are
	// for its tenants alone. DANM does not have this field.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=set
	// +optional
	Tenants []string `json:"tenants,omitempty"`
	// CIDRs have the addresses that networks on the entry may give: cidr and net6 of each
	// must be inside one of them. None means all addresses. DANM does not have this field.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c) && string(cidr(c).masked()) == c)",message="each entry of cidrs must be a canonical CIDR, for example 10.20.0.0/16 or fd10:20::/48 (no host bits, lower case, shortest form)"
	// +listType=atomic
	// +optional
	CIDRs []string `json:"cidrs,omitempty"`
	// Alloc is the allocation record of DANM. Alioth keeps claims as objects, and
	// refuses a TenantConfig that is created with a record.
	// +optional
	Alloc string `json:"alloc,omitempty"`
}

// TenantConfigStatus is the observed state of a TenantConfig.
type TenantConfigStatus struct {
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Devices has the names of all devices and pools, for people.
	// +optional
	Devices string `json:"devices,omitempty"`
	// Conditions: Ready. Of several TenantConfigs the oldest serves.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NetworkID is a value of TenantConfig.NetworkIDs.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][-A-Za-z0-9_.]*$`
type NetworkID string

// TenantConfig lists the devices and numbers of the nodes that TenantNetworks may use. As in
// DANM, the fields have no spec around them.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, the API of DANM"
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=tenantconfigs,singular=tenantconfig,shortName=tc;tconf
// +kubebuilder:printcolumn:name="Devices",type=string,JSONPath=`.status.devices`
// +kubebuilder:printcolumn:name="NetworkIDs",type=string,JSONPath=`.networkIds`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="(has(self.hostDevices) && self.hostDevices.size() > 0) || (has(self.networkIds) && self.networkIds.size() > 0)",message="hostDevices or networkIds must have an entry"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.hostDevices) || self.hostDevices.all(d, !has(d.alloc) || d.alloc.size() == 0)",optionalOldSelf=true,message="hostDevices must have no alloc in a new TenantConfig: Alioth keeps the numbers in use as HostVNIClaim objects; leave it out"
type TenantConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// HostDevices are the devices and pools of devices.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	HostDevices []HostDevice `json:"hostDevices,omitempty"`
	// NetworkIDs gives networks of a NetworkType their NetworkID, whatever the
	// TenantNetwork has. Upper and lower case of the type are equal.
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule=`!("" in self)`,message="each entry of networkIds must have a NetworkType as its key"
	// +optional
	NetworkIDs map[string]NetworkID `json:"networkIds,omitempty"`

	Status TenantConfigStatus `json:"status,omitempty"`
}

// TenantConfigList is a list of TenantConfigs.
// +kubebuilder:object:root=true
type TenantConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TenantConfig `json:"items"`
}
