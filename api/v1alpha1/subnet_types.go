// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SubnetUse is the use of a subnet's addresses.
// +kubebuilder:validation:Enum=Pods;Services
type SubnetUse string

const (
	// SubnetForPods is the use of a subnet whose addresses pods and nodes get.
	SubnetForPods SubnetUse = "Pods"
	// SubnetForServices is the use of a subnet whose addresses only Services of type
	// LoadBalancer get.
	SubnetForServices SubnetUse = "Services"
)

// SubnetSpec is the desired state of a subnet.
// +kubebuilder:validation:XValidation:rule="self.use == oldSelf.use",message="spec.use can't change: delete the subnet and create another"
// +kubebuilder:validation:XValidation:rule="self.vpc == oldSelf.vpc",message="spec.vpc can't change: delete the subnet and create another"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || self.gateway.all(g, isIP(g) && self.cidrs.exists(c, isCIDR(c) && cidr(c).containsIP(g)))",message="each gateway must be an address inside spec.cidrs"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || self.gateway.all(g, !isIP(g) || !self.cidrs.exists(c, isCIDR(c) && cidr(c).masked().ip() == ip(g)) || (oldSelf.hasValue() && has(oldSelf.value().gateway) && g in oldSelf.value().gateway && oldSelf.value().cidrs.exists(c, isCIDR(c) && cidr(c).masked().ip() == ip(g))))",optionalOldSelf=true,message="a gateway must not be the first address of its range, which no host has: leave it out for the one after it, or give another one"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || self.gateway.all(g, !isIP(g) || ip(g).family() == 6 || !self.cidrs.exists(c, isCIDR(c) && cidr(c).containsIP(g) && cidr(c).prefixLength() >= 8 && cidr(c).prefixLength() <= 29 && (int(g.split('.')[0]) * 16777216 + int(g.split('.')[1]) * 65536 + int(g.split('.')[2]) * 256 + int(g.split('.')[3]) + 1) % [16777216, 8388608, 4194304, 2097152, 1048576, 524288, 262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8][cidr(c).prefixLength() - 8] == 0))",message="a gateway must not be the last address of its IPv4 range, which is the broadcast address: leave it out for the address after the first one, or give another one"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || self.gateway.size() < 2 || !isIP(self.gateway[0]) || !isIP(self.gateway[1]) || ip(self.gateway[0]).family() != ip(self.gateway[1]).family()",message="at most one gateway per address family"
// +kubebuilder:validation:XValidation:rule="!has(self.reserved) || self.reserved.all(r, self.cidrs.exists(c, isCIDR(c) && (isCIDR(r) ? cidr(c).containsCIDR(r) || cidr(r).containsCIDR(c) : r.split('-').exists(end, isIP(end) && cidr(c).containsIP(end)))))",message="each entry of reserved must be inside spec.cidrs: correct it, or leave it out"
type SubnetSpec struct {
	// VPC is the name of the VPC that the subnet belongs to. It may be created
	// after the subnet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	VPC string `json:"vpc"`

	// Name is the subnet's name within its VPC, which pods use to request it. The
	// default is the object's name.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Name string `json:"name,omitempty"`

	// CIDRs are the subnet's ranges, one per family, inside the VPC's ranges.
	// They may grow, but not exclude an assigned address.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c) && string(cidr(c).masked()) == c)",message="each entry must be a canonical CIDR, for example 10.10.1.0/24 or fd10:10:0:1::/64 (no host bits, lower case, shortest form)"
	// +kubebuilder:validation:XValidation:rule="self.all(c, !isCIDR(c) || (cidr(c).ip().family() == 4 ? cidr(c).prefixLength() >= 8 && cidr(c).prefixLength() <= 29 : cidr(c).prefixLength() >= 32 && cidr(c).prefixLength() <= 120))",message="an IPv4 range must be /8 to /29, an IPv6 range /32 to /120"
	// +kubebuilder:validation:XValidation:rule="self.all(c, !isCIDR(c) || !['0.0.0.0/8','127.0.0.0/8','169.254.0.0/16','224.0.0.0/3'].exists(r, cidr(c).ip().family() == 4 && (cidr(r).containsCIDR(c) || cidr(c).containsCIDR(r))))",message="0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16 and 224.0.0.0/3 are reserved"
	// +kubebuilder:validation:XValidation:rule="self.all(c, !isCIDR(c) || !['::/8','fe80::/10','ff00::/8'].exists(r, cidr(c).ip().family() == 6 && (cidr(r).containsCIDR(c) || cidr(c).containsCIDR(r))))",message="::/8, fe80::/10 and ff00::/8 are reserved"
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !isCIDR(self[0]) || !isCIDR(self[1]) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="at most one range per address family"
	// +listType=atomic
	CIDRs []string `json:"cidrs"`

	// Gateway is the address of the virtual gateway, one per family. The default is
	// the first address after the network address.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=39
	// +listType=atomic
	// +optional
	Gateway []string `json:"gateway,omitempty"`

	// Reserved are addresses that Alioth never assigns, even on request: single
	// addresses, CIDRs without host bits, or ranges written first-last.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=80
	// +kubebuilder:validation:XValidation:rule="self.all(r, isIP(r) || isCIDR(r) || (r.split('-').size() == 2 && isIP(r.split('-')[0]) && isIP(r.split('-')[1]) && ip(r.split('-')[0]).family() == ip(r.split('-')[1]).family()))",message="each entry must be an address, a CIDR, or a range such as 10.10.1.2-10.10.1.9"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !isCIDR(r) || cidr(r).masked() == cidr(r))",message="a CIDR must not have host bits: give 10.10.1.8/29 for the range, or 10.10.1.9 for the address alone"
	// +listType=atomic
	// +optional
	Reserved []string `json:"reserved,omitempty"`

	// Use is the use of the subnet's addresses: Pods (default), or Services, which are
	// the load balancers of class alioth.dev/vpc.
	// +kubebuilder:default=Pods
	// +optional
	Use SubnetUse `json:"use,omitempty"`

	// Bouncers is the number of nodes with the subnet's full address table, 1 to 64. By
	// default as many as the VPC has dividers; if it has none, every node with pods of
	// the VPC has the table.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	Bouncers *int32 `json:"bouncers,omitempty"`
}

// SubnetStatus is the observed state of a subnet. The nodes watch it, so figures that change
// with every address are in the subnet's Usage.
type SubnetStatus struct {
	// InUse is true while an address of the subnet is assigned. It may lag behind by some
	// seconds.
	// +optional
	InUse bool `json:"inUse,omitempty"`
	// Cursors are the last addresses that a release without Usage objects chose, one per
	// family. The operator moves them to the Usage.
	// +kubebuilder:validation:MaxItems=2
	// +listType=atomic
	// +optional
	Cursors []string `json:"cursors,omitempty"`
	// Bouncers are the nodes that have the subnet's full address table; unset if every
	// node with pods of the VPC has it.
	// +optional
	Bouncers *RolesStatus `json:"bouncers,omitempty"`
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready, RolesReady.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Subnet is a range of addresses in one VPC.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=subnets,singular=subnet,shortName=vsub
// +kubebuilder:selectablefield:JSONPath=`.spec.vpc`
// +kubebuilder:printcolumn:name="VPC",type=string,JSONPath=`.spec.vpc`
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.spec.name`,priority=1
// +kubebuilder:printcolumn:name="CIDRs",type=string,JSONPath=`.spec.cidrs`
// +kubebuilder:printcolumn:name="Use",type=string,JSONPath=`.spec.use`
// +kubebuilder:printcolumn:name="InUse",type=boolean,JSONPath=`.status.inUse`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.inUse) || !oldSelf.status.inUse || oldSelf.spec.cidrs.all(o, self.spec.cidrs.exists(n, isCIDR(n) && cidr(n).containsCIDR(o)))",message="spec.cidrs may only grow while addresses of the subnet are held"
type Subnet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SubnetSpec   `json:"spec"`
	Status SubnetStatus `json:"status,omitempty"`
}

// SubnetList is a list of Subnets.
// +kubebuilder:object:root=true
type SubnetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Subnet `json:"items"`
}

func init() {
	register(&Subnet{}, &SubnetList{})
}
