// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Egress controls the destinations of a VPC's pods outside their VPC.
// +kubebuilder:validation:Enum=None;Masquerade
type Egress string

const (
	// EgressNone drops all packets that leave the VPC except packets to shared services.
	EgressNone Egress = "None"
	// EgressMasquerade lets pods open connections to destinations outside the VPC,
	// with the node's address as source.
	EgressMasquerade Egress = "Masquerade"
)

// VPCSpec is the desired state of a VPC.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.vni) || (has(self.vni) && self.vni == oldSelf.vni)",message="spec.vni can't change: a VNI belongs to one VPC for its whole life"
type VPCSpec struct {
	// CIDRs are the VPC's address ranges, IPv4 or IPv6, in canonical form
	// (no host bits). They may overlap the ranges of any other VPC. They may grow,
	// and may shrink as long as no subnet loses its range.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c) && string(cidr(c).masked()) == c)",message="each entry must be a canonical CIDR, for example 10.10.0.0/16 or fd10:10::/48 (no host bits, lower case, shortest form)"
	// +kubebuilder:validation:XValidation:rule="self.all(c, !isCIDR(c) || (cidr(c).ip().family() == 4 ? cidr(c).prefixLength() >= 8 && cidr(c).prefixLength() <= 29 : cidr(c).prefixLength() >= 32 && cidr(c).prefixLength() <= 120))",message="an IPv4 range must be /8 to /29, an IPv6 range /32 to /120"
	// +kubebuilder:validation:XValidation:rule="self.all(c, !isCIDR(c) || !['0.0.0.0/8','127.0.0.0/8','169.254.0.0/16','224.0.0.0/3'].exists(r, cidr(c).ip().family() == 4 && (cidr(r).containsCIDR(c) || cidr(c).containsCIDR(r))))",message="0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16 and 224.0.0.0/3 are reserved"
	// +kubebuilder:validation:XValidation:rule="self.all(c, !isCIDR(c) || !['::/8','fe80::/10','ff00::/8'].exists(r, cidr(c).ip().family() == 6 && (cidr(r).containsCIDR(c) || cidr(c).containsCIDR(r))))",message="::/8, fe80::/10 and ff00::/8 are reserved"
	// +kubebuilder:validation:XValidation:rule="self.all(a, !isCIDR(a) || self.exists_one(b, isCIDR(b) && cidr(a).ip().family() == cidr(b).ip().family() && (cidr(a).containsCIDR(b) || cidr(b).containsCIDR(a))))",message="the ranges of one VPC must not overlap each other"
	// +listType=set
	CIDRs []string `json:"cidrs"`

	// AllowedTenants may use the VPC through a Network of their own. Empty means no
	// tenant, "*" every tenant, "ns:*" every namespace without a tenant label, and
	// ns:<name> one such namespace.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(t, t in ['*', 'ns:*'] || !t.contains('*'))",message="the only patterns are '*', which means everybody, and 'ns:*', which means namespaces without a tenant label"
	// +kubebuilder:validation:items:Pattern=`^[!-~]+$`
	// +listType=set
	// +optional
	AllowedTenants []string `json:"allowedTenants,omitempty"`

	// Egress controls the destinations of the VPC's pods outside: None (default) or
	// Masquerade.
	// +kubebuilder:default=None
	// +optional
	Egress Egress `json:"egress,omitempty"`

	// EgressAllow are the only destinations outside the VPC that its pods reach, as
	// CIDRs in canonical form. Without it, egress: Masquerade reaches all destinations
	// that are not closed. The list does not open destinations that are closed to every
	// tenant (the nodes, the default VPC, service ranges, link-local addresses). The
	// exception are cloud metadata addresses: a VPC reaches one if the list has it as
	// /32 or /128.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c) && string(cidr(c).masked()) == c)",message="each entry must be a canonical CIDR, for example 203.0.113.0/24, 198.51.100.7/32 or 2001:db8::/32 (no host bits, lower case, shortest form)"
	// +listType=set
	// +optional
	EgressAllow []string `json:"egressAllow,omitempty"`

	// EgressDeny are destinations outside the VPC that its pods must not reach, as
	// CIDRs in canonical form. It has precedence over EgressAllow, independent of
	// prefix lengths.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c) && string(cidr(c).masked()) == c)",message="each entry must be a canonical CIDR, for example 203.0.113.0/24, 198.51.100.7/32 or 2001:db8::/32 (no host bits, lower case, shortest form)"
	// +listType=set
	// +optional
	EgressDeny []string `json:"egressDeny,omitempty"`

	// VNI requests a certain VXLAN network identifier (RFC 7348), 1 to 16777215. By
	// default the operator picks a free one.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	// +optional
	VNI *int32 `json:"vni,omitempty"`

	// Dividers is the number of nodes with the VPC's full subnet table, 1 to 64. By default
	// every node with pods of the VPC has it.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	Dividers *int32 `json:"dividers,omitempty"`
}

// VPCStatus is the observed state of a VPC. The nodes watch it, so figures that change with
// every address are in the VPC's Usage.
type VPCStatus struct {
	// VNI is the claimed VXLAN network identifier; 0 before the claim.
	// +optional
	VNI int32 `json:"vni,omitempty"`
	// Dividers are the nodes that have the VPC's full subnet table; unset if every node
	// with pods of the VPC has it.
	// +optional
	Dividers *RolesStatus `json:"dividers,omitempty"`
	// RolesRevision is the last revision of the VPC's role members that the operator has
	// taken. It never decreases.
	// +optional
	RolesRevision int64 `json:"rolesRevision,omitempty"`
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready, RolesReady.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VPC is an isolated L3 domain with a VNI of its own and one or more address
// ranges, which may overlap the ranges of any other VPC.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=vpcs,singular=vpc
// +kubebuilder:printcolumn:name="VNI",type=integer,JSONPath=`.status.vni`
// +kubebuilder:printcolumn:name="CIDRs",type=string,JSONPath=`.spec.cidrs`
// +kubebuilder:printcolumn:name="Egress",type=string,JSONPath=`.spec.egress`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="the name of a VPC must be a DNS label: at most 63 of a-z, 0-9 and '-', no dots"
type VPC struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VPCSpec   `json:"spec"`
	Status VPCStatus `json:"status,omitempty"`
}

// VPCList is a list of VPCs.
// +kubebuilder:object:root=true
type VPCList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VPC `json:"items"`
}

func init() {
	register(&VPC{}, &VPCList{})
}
