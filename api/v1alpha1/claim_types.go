// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/netif"
)

// HolderKind is the kind of an address's holder.
// +kubebuilder:validation:Enum=Pod;Node;Service
type HolderKind string

const (
	// HolderPod is the kind of an address that a pod's attachment holds.
	HolderPod HolderKind = "Pod"
	// HolderNode is the kind of a node's own address in the default VPC.
	HolderNode HolderKind = "Node"
	// HolderService is the kind of an address that a Service of type LoadBalancer
	// has in its VPC. It is on no node.
	HolderService HolderKind = "Service"
)

// AddressHolder is the holder of an address.
// +kubebuilder:validation:XValidation:rule="has(self.namespace) == (self.kind != 'Node')",message="a Pod or Service has a namespace, a Node has none"
type AddressHolder struct {
	Kind HolderKind `json:"kind"`
	// Namespace of a Pod or Service; not set for a Node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// UID of the holder: a successor of the same name does not hold the
	// address.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	UID string `json:"uid"`
}

// DriverExternal is the driver of an address for an interface that another CNI plugin
// makes. The datapath does not lead to such an address.
const DriverExternal = "external"

// AddressSpec is one IP of one VPC, or of one network outside of every VPC, with its
// holder and node.
// +kubebuilder:validation:XValidation:rule="self.ip == oldSelf.ip && self.set == oldSelf.set && self.holder == oldSelf.holder && has(self.vpc) == has(oldSelf.vpc) && (!has(self.vpc) || self.vpc == oldSelf.vpc) && has(self.network) == has(oldSelf.network) && (!has(self.network) || self.network == oldSelf.network) && has(self.subnet) == has(oldSelf.subnet) && (!has(self.subnet) || self.subnet == oldSelf.subnet) && has(self.mac) == has(oldSelf.mac) && (!has(self.mac) || self.mac == oldSelf.mac) && has(self.node) == has(oldSelf.node) && (!has(self.node) || self.node == oldSelf.node) && has(self.attachment) == has(oldSelf.attachment) && (!has(self.attachment) || self.attachment == oldSelf.attachment) && has(self.driver) == has(oldSelf.driver) && (!has(self.driver) || self.driver == oldSelf.driver)",message="an Address can't change: it is released by deleting it"
// +kubebuilder:validation:XValidation:rule="has(self.config) || !has(oldSelf.config)",message="spec.config can't be removed"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || has(self.vpc) && self.holder.kind == 'Pod'",message="only an address of a Pod in a VPC has spec.config"
// +kubebuilder:validation:XValidation:rule="!has(self.interfaces) || has(self.config) && self.interfaces[0] == self.attachment",message="only an address of the first interface, with spec.config, has spec.interfaces"
// +kubebuilder:validation:XValidation:rule="self.ip in self.set",message="spec.set must contain spec.ip"
// +kubebuilder:validation:XValidation:rule="has(self.vpc) != has(self.network)",message="exactly one of spec.vpc and spec.network must be set"
// +kubebuilder:validation:XValidation:rule="has(self.vpc) == has(self.subnet)",message="an address of a VPC has spec.subnet, an address of a network outside of every VPC has none"
// +kubebuilder:validation:XValidation:rule="!has(self.network) || self.holder.kind == 'Pod'",message="only a Pod has addresses of a network outside of every VPC"
// +kubebuilder:validation:XValidation:rule="!has(self.driver) || has(self.vpc) && self.holder.kind == 'Pod'",message="only an address of a Pod in a VPC has spec.driver"
// +kubebuilder:validation:XValidation:rule="[has(self.node), has(self.mac) || has(self.network), has(self.attachment)].all(set, set == (self.holder.kind != 'Service'))",message="a Pod or Node has spec.node, spec.mac and spec.attachment, a Service has none of them"
type AddressSpec struct {
	// VPC that the address belongs to; not set outside of every VPC.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	VPC string `json:"vpc,omitempty"`
	// Network outside of every VPC that the address belongs to; not set in a VPC.
	// +optional
	Network *NetworkReference `json:"network,omitempty"`
	// Subnet is the name of the Subnet object that the address was taken from; not set
	// outside of every VPC.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Subnet string `json:"subnet,omitempty"`
	// IP in canonical form (RFC 5952 for IPv6).
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip.isCanonical(self)",message="must be an IP address in canonical form"
	// +kubebuilder:validation:XValidation:rule="!isIP(self) || ip(self).isGlobalUnicast() || ip(self).isLinkLocalUnicast()",message="must be the address of one host: no unspecified, loopback, multicast or broadcast address"
	IP string `json:"ip"`
	// MAC of the attachment that holds the address. It is not set for a Service, and not where
	// the attachment uses the MAC of a device of the node (ipvlan).
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^.[02468ace]') && self != '00:00:00:00:00:00'",message="must be the address of one station: its first octet is even, and it is not zero"
	// +optional
	MAC string `json:"mac,omitempty"`
	// Node of the holder; not set for a Service.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Node string `json:"node,omitempty"`
	// Holder of the address.
	Holder AddressHolder `json:"holder"`
	// Attachment is the name of the holder's interface, for example eth0; not set
	// for a Service.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	// +optional
	Attachment string `json:"attachment,omitempty"`
	// Driver is external if another CNI plugin makes the interface; not set for an
	// interface of Alioth.
	// +kubebuilder:validation:Enum=external
	// +optional
	Driver string `json:"driver,omitempty"`
	// Set lists all addresses of the same attachment, or Service, this one
	// included. It shows whether the set is complete.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="self.all(i, isIP(i) && (ip(i).isGlobalUnicast() || ip(i).isLinkLocalUnicast()))",message="each entry must be the address of one host"
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !isIP(self[0]) || !isIP(self[1]) || ip(self[0]).family() != ip(self[1]).family()",message="at most one address per family"
	// +listType=atomic
	Set []string `json:"set"`
	// Config is the configuration of the holder's interface in a VPC. An Address of release 0.1 has
	// none until the operator adds it.
	// +optional
	Config *netif.VPCConfig `json:"config,omitempty"`
	// Interfaces lists the names of all interfaces of the holder in their order, if this is an
	// address of the first one. The node attaches the pod once it has the objects of all of them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=129
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=15
	// +kubebuilder:validation:items:Pattern=`^[!-~]+$`
	// +listType=atomic
	// +optional
	Interfaces []string `json:"interfaces,omitempty"`
}

// Domain returns the domain where the IP is unique: the name of the VPC, or of the network
// outside of every VPC.
func (s *AddressSpec) Domain() string {
	if s.Network != nil {
		return NetworkDomain(s.Network.UID)
	}
	return s.VPC
}

// Address is one IP of one VPC, or of one network outside of every VPC: the claim of the
// IP, and the endpoint record. Its creation is the allocation, because names are unique
// in the API.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=addresses,singular=address,shortName=addr
// +kubebuilder:selectablefield:JSONPath=`.spec.node`
// +kubebuilder:selectablefield:JSONPath=`.spec.vpc`
// +kubebuilder:selectablefield:JSONPath=`.spec.subnet`
// +kubebuilder:selectablefield:JSONPath=`.spec.holder.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.network.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.network.namespace`
// +kubebuilder:selectablefield:JSONPath=`.spec.network.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.network.uid`
// +kubebuilder:printcolumn:name="VPC",type=string,JSONPath=`.spec.vpc`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network.name`
// +kubebuilder:printcolumn:name="Network kind",type=string,JSONPath=`.spec.network.kind`,priority=1
// +kubebuilder:printcolumn:name="Network namespace",type=string,JSONPath=`.spec.network.namespace`,priority=1
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.spec.ip`
// +kubebuilder:printcolumn:name="Subnet",type=string,JSONPath=`.spec.subnet`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.holder.kind`,priority=1
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.holder.namespace`
// +kubebuilder:printcolumn:name="Holder",type=string,JSONPath=`.spec.holder.name`
// +kubebuilder:printcolumn:name="Driver",type=string,JSONPath=`.spec.driver`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.vpc) || self.metadata.name == self.spec.vpc + '.' + (self.spec.ip.endsWith('::') ? self.spec.ip.replace(':', '-') + '0' : self.spec.ip.replace(':', '-'))",message="metadata.name must be <spec.vpc>.<spec.ip>, with '-' for ':'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.network) || self.metadata.name == self.spec.network.uid + '.net.' + (self.spec.ip.endsWith('::') ? self.spec.ip.replace(':', '-') + '0' : self.spec.ip.replace(':', '-'))",message="metadata.name must be <spec.network.uid>.net.<spec.ip>, with '-' for ':'"
type Address struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AddressSpec `json:"spec"`
}

// AddressList is a list of Addresses.
// +kubebuilder:object:root=true
type AddressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Address `json:"items"`
}

// AddressName returns the name of the Address object of an IP in a domain, which is the
// name of a VPC or a NetworkDomain: "<domain>.<ip>" with '-' for ':' and a trailing "::"
// as "--0", because an object name must end in a letter or digit.
func AddressName(domain string, ip netip.Addr) string {
	return domain + "." + spelled(ip)
}

// spelled returns an IP as names of objects have it.
func spelled(ip netip.Addr) string {
	text := ip.Unmap().String()
	if strings.HasSuffix(text, "::") {
		text += "0"
	}
	return strings.ReplaceAll(text, ":", "-")
}

// VNIClaimSpec is a VNI and its VPC.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a VNIClaim can't change"
type VNIClaimSpec struct {
	// VNI is the VXLAN network identifier (RFC 7348).
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`
	// VPC is the name of the VPC that holds the VNI.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	VPC string `json:"vpc"`
	// VPCUID is the UID of that VPC: a successor of the same name does not
	// hold the VNI.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	VPCUID string `json:"vpcUID"`
}

// VNIClaim is the claim of one VNI for one VPC. Its creation is the
// allocation, as with Address.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=vniclaims,singular=vniclaim,shortName=vni
// +kubebuilder:printcolumn:name="VNI",type=integer,JSONPath=`.spec.vni`
// +kubebuilder:printcolumn:name="VPC",type=string,JSONPath=`.spec.vpc`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^vni-[1-9][0-9]{0,7}$') && int(self.metadata.name.substring(4)) == self.spec.vni",message="metadata.name must be vni-<spec.vni>"
type VNIClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec VNIClaimSpec `json:"spec"`
}

// VNIClaimList is a list of VNIClaims.
// +kubebuilder:object:root=true
type VNIClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VNIClaim `json:"items"`
}

// VNIClaimName returns the name of the VNIClaim object of a VNI.
func VNIClaimName(vni uint32) string {
	return fmt.Sprintf("vni-%d", vni)
}

// HostVNIClaimNetwork names the network that holds a number.
type HostVNIClaimNetwork struct {
	// Group of the network's API.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Group string `json:"group"`
	// Kind of the network.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Kind string `json:"kind"`
	// Namespace of the network; empty for a cluster-scoped one.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the network.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// UID of the network: a successor of the same name does not hold the number.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	UID string `json:"uid"`
}

// HostVNIClaimSpec is a VLAN ID or VXLAN network identifier on a device of the nodes, and
// the network that holds it.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a HostVNIClaim can't change"
// +kubebuilder:validation:XValidation:rule="self.type != 'vlan' || self.vni <= 4094",message="a VLAN ID is at most 4094"
type HostVNIClaimSpec struct {
	// Type is vlan (IEEE 802.1Q) or vxlan (RFC 7348).
	// +kubebuilder:validation:Enum=vlan;vxlan
	Type string `json:"type"`
	// VNI is the number.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`
	// Device is the parent device on the nodes, or the pool of devices (an extended
	// resource).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[\pL\pM\pN\pP\pS]+$`
	Device string `json:"device"`
	// Network holds the number.
	Network HostVNIClaimNetwork `json:"network"`
}

// HostVNIClaim is the claim of one number of a TenantConfig for one network. Its creation
// is the allocation, as with Address.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=hostvniclaims,singular=hostvniclaim,shortName=hvni
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="VNI",type=integer,JSONPath=`.spec.vni`
// +kubebuilder:printcolumn:name="Device",type=string,JSONPath=`.spec.device`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.network.kind`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.network.namespace`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^(vlan|vxlan)-[1-9][0-9]{0,7}[.]([-a-z0-9]+|0[.][0-9a-f]+)$') && self.metadata.name.startsWith(self.spec.type + '-') && int(self.metadata.name.substring(self.spec.type.size() + 1, self.metadata.name.indexOf('.'))) == self.spec.vni && (self.spec.device.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$') ? self.metadata.name.substring(self.metadata.name.indexOf('.') + 1) == self.spec.device : self.metadata.name.contains('.0.'))",message="metadata.name must be <spec.type>-<spec.vni>.<spec.device>, or <spec.type>-<spec.vni>.0.<spec.device in hexadecimal>"
type HostVNIClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HostVNIClaimSpec `json:"spec"`
}

// HostVNIClaimList is a list of HostVNIClaims.
// +kubebuilder:object:root=true
type HostVNIClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostVNIClaim `json:"items"`
}

// HostVNIClaimName returns the name of the HostVNIClaim object of a number: type is vlan or
// vxlan. A device name that is not a DNS label (RFC 1123) is in hexadecimal behind a label 0, so
// that no two devices share a name.
func HostVNIClaimName(vniType string, vni uint32, device string) string {
	return fmt.Sprintf("%s-%d.%s", vniType, vni, labelOrHex(device))
}

// Numbers of domains. They begin above the VNIs (24 bits, RFC 7348), so no packet has one.
const (
	MinDomainNumber = 1 << 24
	MaxDomainNumber = 1<<31 - 1
)

// DomainClaimSpec is a number and its network outside of every VPC.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a DomainClaim can't change"
type DomainClaimSpec struct {
	// Number stands for the network in the tables of the nodes, where a VPC has its VNI.
	// It is in no packet.
	// +kubebuilder:validation:Minimum=16777216
	// +kubebuilder:validation:Maximum=2147483647
	Number int32 `json:"number"`
	// Network holds the number, by its UID: a successor of the same name does not hold it.
	Network NetworkReference `json:"network"`
}

// DomainClaim is the claim of one number for one network outside of every VPC. Its
// creation is the allocation, as with VNIClaim.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=domainclaims,singular=domainclaim
// +kubebuilder:printcolumn:name="Number",type=integer,JSONPath=`.spec.number`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.network.kind`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.network.namespace`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^domain-[1-9][0-9]{0,9}$') && int(self.metadata.name.substring(7)) == self.spec.number",message="metadata.name must be domain-<spec.number>"
type DomainClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DomainClaimSpec `json:"spec"`
}

// DomainClaimList is a list of DomainClaims.
// +kubebuilder:object:root=true
type DomainClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DomainClaim `json:"items"`
}

// DomainClaimName returns the name of the DomainClaim object of a number.
func DomainClaimName(number uint32) string { return fmt.Sprintf("domain-%d", number) }

func init() {
	register(&Address{}, &AddressList{})
	register(&VNIClaim{}, &VNIClaimList{})
	register(&HostVNIClaim{}, &HostVNIClaimList{})
	register(&DomainClaim{}, &DomainClaimList{})
}
