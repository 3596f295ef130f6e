// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/hex"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of host links.
const (
	// HostLinkVLAN is a VLAN (IEEE 802.1Q).
	HostLinkVLAN = "vlan"
	// HostLinkVXLAN is a VXLAN segment (RFC 7348).
	HostLinkVXLAN = "vxlan"
	// HostLinkDevice is the device itself: nodes make no link, and report whether they have it.
	HostLinkDevice = "device"
)

// HostLinkSpec is a link on the nodes. Type, number and device never change.
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type && self.vni == oldSelf.vni && self.device == oldSelf.device",message="spec.type, spec.vni and spec.device of a HostLink can't change"
// +kubebuilder:validation:XValidation:rule="self.type != 'vlan' || self.vni <= 4094",message="a VLAN ID is at most 4094"
// +kubebuilder:validation:XValidation:rule="(self.type == 'device') == (self.vni == 0)",message="spec.vni is the number of a vlan or vxlan, and 0 for a device"
type HostLinkSpec struct {
	// Type is vlan (IEEE 802.1Q) or vxlan (RFC 7348), or device for networks on the device
	// itself: nodes make no link then, and report whether they have the device.
	// +kubebuilder:validation:Enum=vlan;vxlan;device
	Type string `json:"type"`
	// VNI is the VLAN ID or the VXLAN network identifier; 0 for a device.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`
	// Device is the parent device on the nodes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[\pL\pM\pN\pP\pS]+$`
	Device string `json:"device"`
	// NetworkID is the NetworkID of the oldest network that wants the link. Nodes name the
	// link by it.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NetworkID string `json:"networkID,omitempty"`
	// MTU is the largest of the networks' MTUs, in bytes; 0 if one of them leaves it to
	// the parent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	MTU int32 `json:"mtu,omitempty"`
}

// HostLink is a VLAN or VXLAN link that every node with the parent device makes, because
// networks outside of every VPC are on it; or a device that such networks are on themselves.
// Only the operator writes it: it exists as long as a network wants it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=hostlinks,singular=hostlink
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="VNI",type=integer,JSONPath=`.spec.vni`
// +kubebuilder:printcolumn:name="Device",type=string,JSONPath=`.spec.device`
// +kubebuilder:printcolumn:name="NetworkID",type=string,JSONPath=`.spec.networkID`
// +kubebuilder:printcolumn:name="MTU",type=integer,JSONPath=`.spec.mtu`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]+-(0|[1-9][0-9]{0,7})[.]([-a-z0-9]+|0[.][0-9a-f]+)$') && self.metadata.name.startsWith(self.spec.type + '-') && int(self.metadata.name.substring(self.spec.type.size() + 1, self.metadata.name.indexOf('.'))) == self.spec.vni && (self.spec.device.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$') ? self.metadata.name.substring(self.metadata.name.indexOf('.') + 1) == self.spec.device : self.metadata.name.contains('.0.'))",message="metadata.name must be <spec.type>-<spec.vni>.<spec.device>, or <spec.type>-<spec.vni>.0.<spec.device in hexadecimal>"
type HostLink struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HostLinkSpec `json:"spec"`
}

// HostLinkList is a list of HostLinks.
// +kubebuilder:object:root=true
type HostLinkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostLink `json:"items"`
}

// HostLinkName returns the name of the HostLink object of a number on a device. The type is
// vlan or vxlan, or device with the number 0. No two of them share a name.
func HostLinkName(linkType string, vni uint32, device string) string {
	return HostVNIClaimName(linkType, vni, device)
}

// ParseHostLinkName is the inverse of HostLinkName. It returns false for other texts.
func ParseHostLinkName(name string) (linkType string, vni uint32, device string, ok bool) {
	head, device, found := strings.Cut(name, ".")
	linkType, digits, dashed := strings.Cut(head, "-")
	number, err := strconv.ParseUint(digits, 10, 24)
	if !found || !dashed || err != nil {
		return "", 0, "", false
	}
	if hexed, inHex := strings.CutPrefix(device, "0."); inHex {
		text, err := hex.DecodeString(hexed)
		if err != nil {
			return "", 0, "", false
		}
		device = string(text)
	}
	vni = uint32(number)
	valid := linkType == HostLinkDevice
	if vni != 0 {
		valid = linkType == HostLinkVLAN || linkType == HostLinkVXLAN
	}
	return linkType, vni, device, valid && HostLinkName(linkType, vni, device) == name
}

const (
	// MaxHostLinkFailures bounds the failures of one report.
	MaxHostLinkFailures = 64
	// MaxHostLinkAddresses bounds the devices with addresses in one report.
	MaxHostLinkAddresses = 16
	// MaxHostLinkConfigurations bounds the configurations in one report.
	MaxHostLinkConfigurations = 64
)

// HostLinkFailure is the cause why a node lacks host links. Without Device it is about all
// devices, without Type about links of both types, and without VNI about all numbers.
type HostLinkFailure struct {
	// Device is the parent device.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[\pL\pM\pN\pP\pS]+$`
	// +optional
	Device string `json:"device,omitempty"`
	// Type is vlan, vxlan or device.
	// +kubebuilder:validation:Enum=vlan;vxlan;device
	// +optional
	Type string `json:"type,omitempty"`
	// VNI is the VLAN ID or the VXLAN network identifier.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16777215
	// +optional
	VNI int32 `json:"vni,omitempty"`
	// Reason is one word.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Reason string `json:"reason"`
	// Message names the cause and the remedy.
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message"`
}

// HostLinkAddresses are the addresses of a node at the parent device of VXLAN links.
type HostLinkAddresses struct {
	// Device is the parent device.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[\pL\pM\pN\pP\pS]+$`
	Device string `json:"device"`
	// IPs are at most one address of each family.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="self.all(ip, isIP(ip) && ip(ip).isGlobalUnicast())",message="each of ips must be the address of one host, without a zone"
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !isIP(self[0]) || !isIP(self[1]) || ip(self[0]).family() != ip(self[1]).family()",message="ips has at most one address of each family"
	// +listType=atomic
	IPs []string `json:"ips"`
}

// HostLinkReportSpec is the report of a node.
type HostLinkReportSpec struct {
	// Addressed is true if the report has addresses. Other nodes follow these reports alone.
	// +optional
	Addressed bool `json:"addressed,omitempty"`
	// Addresses are the source addresses of the node's VXLAN packets, where they differ from
	// the address that other nodes know it by (InternalIP).
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=device
	// +optional
	Addresses []HostLinkAddresses `json:"addresses,omitempty"`
	// Configured is true if Configurations is complete. It is false on a node that runs no CNI
	// plugins.
	// +optional
	Configured bool `json:"configured,omitempty"`
	// Configurations are the NetworkIDs of static types that the node has a file for.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=100
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9][-A-Za-z0-9_.]*$`
	// +listType=set
	// +optional
	Configurations []string `json:"configurations,omitempty"`
	// Failures are the causes why the node lacks links that HostLink objects demand.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Failures []HostLinkFailure `json:"failures,omitempty"`
	// More is the number of further failures.
	// +kubebuilder:validation:Minimum=0
	// +optional
	More int32 `json:"more,omitempty"`
}

// HostLinkReport lists the host links that one node lacks, its addresses for them, and the
// NetworkIDs that it has configurations for. It has the name of the Node, and the Node's daemon
// writes it. A node with nothing to report need not have one.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=hostlinkreports,singular=hostlinkreport
// +kubebuilder:selectablefield:JSONPath=`.spec.addressed`
// +kubebuilder:printcolumn:name="First Reason",type=string,JSONPath=`.spec.failures[0].reason`
// +kubebuilder:printcolumn:name="Addresses",type=string,JSONPath=`.spec.addresses`
// +kubebuilder:printcolumn:name="Failures",type=string,JSONPath=`.spec.failures`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type HostLinkReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HostLinkReportSpec `json:"spec"`
}

// HostLinkReportList is a list of HostLinkReports.
// +kubebuilder:object:root=true
type HostLinkReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostLinkReport `json:"items"`
}

func init() {
	register(&HostLink{}, &HostLinkList{}, &HostLinkReport{}, &HostLinkReportList{})
}
