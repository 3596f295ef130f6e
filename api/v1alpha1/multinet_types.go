// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/hex"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AttachmentPod is the pod of an attachment, in the namespace of the claim.
type AttachmentPod struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// UID of the pod, without dots: the claim's name depends on it.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// AttachmentClaimSpec is one interface of one pod in one network outside of every VPC.
// +kubebuilder:validation:XValidation:rule="!has(self.interfaces) || self.interfaces[0] == self.interface",message="only the claim of the first interface has spec.interfaces"
// +kubebuilder:validation:XValidation:rule="(!has(oldSelf.config) || has(self.config) && self.config == oldSelf.config) && self.pod == oldSelf.pod && self.node == oldSelf.node && self.interface == oldSelf.interface && self.driver == oldSelf.driver && self.network == oldSelf.network && self.configHash == oldSelf.configHash && has(self.addresses) == has(oldSelf.addresses) && (!has(self.addresses) || self.addresses == oldSelf.addresses)",message="an AttachmentClaim can't change: it is replaced"
type AttachmentClaimSpec struct {
	Pod AttachmentPod `json:"pod"`
	// Node of the pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Node string `json:"node"`
	// Interface is the name of the interface in the pod, for example net1.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.-]*$`
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface"`
	// Driver is the kind of the attachment, for example macvlan.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[\pL\pM\pN\pP\pS]+$`
	Driver string `json:"driver"`
	// Network of the interface.
	Network NetworkReference `json:"network"`
	// Config is the configuration of the interface, as an element of the annotation
	// alioth.dev/attachments: the node of the pod carries it out. A claim of release 0.1 has none
	// until the operator adds it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Config *runtime.RawExtension `json:"config,omitempty"`
	// Interfaces lists the names of all interfaces of the pod in their order, if this is the claim of
	// the first one. The node attaches the pod once it has the objects of all of them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=129
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=15
	// +kubebuilder:validation:items:Pattern=`^[!-~]+$`
	// +listType=atomic
	// +optional
	Interfaces []string `json:"interfaces,omitempty"`
	// ConfigHash is the SHA-256 of the attachment's element in the annotation
	// alioth.dev/attachments, in hex. Daemons of release 0.1 compare it.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash"`
	// Addresses of the interface, with prefix lengths. They are for people; the Address
	// objects are the claims of the IPs.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f:./]+$`
	// +listType=atomic
	// +optional
	Addresses []string `json:"addresses,omitempty"`
}

// AttachmentClaimStatus is the report of the pod's node.
type AttachmentClaimStatus struct {
	// Released is true when the pod has no interface on the node and will get none. A node
	// reports it for claims that are being deleted.
	// +optional
	Released bool `json:"released,omitempty"`
}

// AttachmentClaim permits one interface of a pod in a network outside of every VPC. Only
// the operator writes it. A node attaches nothing without it, because tenants may write
// the annotations of their pods. It reserves nothing. A finalizer keeps it, and so its
// network, until the node has released the pod's interfaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=attachmentclaims,singular=attachmentclaim,shortName=ac
// +kubebuilder:selectablefield:JSONPath=`.spec.node`
// +kubebuilder:selectablefield:JSONPath=`.spec.network.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.network.namespace`
// +kubebuilder:selectablefield:JSONPath=`.spec.network.name`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.spec.pod.name`
// +kubebuilder:printcolumn:name="Interface",type=string,JSONPath=`.spec.interface`
// +kubebuilder:printcolumn:name="Network kind",type=string,JSONPath=`.spec.network.kind`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network.name`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name="Addresses",type=string,JSONPath=`.spec.addresses`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec.interface.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') ? self.metadata.name == self.spec.pod.uid + '.' + self.spec.interface : self.metadata.name.startsWith(self.spec.pod.uid + '.0.') && self.metadata.name.size() == self.spec.pod.uid.size() + 3 + 2 * self.spec.interface.size() && [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14].all(i, i >= self.spec.interface.size() || self.metadata.name.substring(self.spec.pod.uid.size() + 3 + 2 * i, self.spec.pod.uid.size() + 5 + 2 * i) == '2d2e303132333435363738394142434445464748494a4b4c4d4e4f505152535455565758595a5f6162636465666768696a6b6c6d6e6f707172737475767778797a'.substring(2 * '-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'.indexOf(self.spec.interface.charAt(i)), 2 * '-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'.indexOf(self.spec.interface.charAt(i)) + 2))",message="metadata.name must be <spec.pod.uid>.<spec.interface>, or <spec.pod.uid>.0.<spec.interface in hex> if the interface is not a DNS label"
type AttachmentClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AttachmentClaimSpec `json:"spec"`
	// +optional
	Status AttachmentClaimStatus `json:"status,omitempty,omitzero"`
}

// AttachmentClaimList is a list of AttachmentClaims.
// +kubebuilder:object:root=true
type AttachmentClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AttachmentClaim `json:"items"`
}

// AttachmentClaimName returns the name of the AttachmentClaim of a pod's interface:
// "<podUID>.<interface>" if the interface is a DNS label (RFC 1123), else
// "<podUID>.0.<interface in hex>". A label has no dot, so no two interfaces share a name.
func AttachmentClaimName(podUID, iface string) string {
	return podUID + "." + labelOrHex(iface)
}

// NetworkReference names one network outside of every VPC. A network that is made again
// has another UID, so nothing that refers to the first one refers to it.
type NetworkReference struct {
	// Group is the API group of the network; not set if only its UID is known.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	// +optional
	Group string `json:"group,omitempty"`
	// Kind is DanmNet, TenantNetwork, ClusterNetwork or NetworkAttachmentDefinition.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Kind string `json:"kind"`
	// Namespace of the network; not set if its kind has none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// UID of the network, without dots: names of objects depend on it.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// NetworkDomain returns the domain of a network outside of every VPC, by its UID. The
// name of a VPC has no dot, so it is never the domain of a network.
func NetworkDomain(uid string) string { return uid + ".net" }

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// labelOrHex returns a text as the last part of an object's name: itself if it is a DNS
// label (RFC 1123), else "0." and its bytes in hexadecimal. A label has no dot, so no two
// texts give one name.
func labelOrHex(text string) string {
	if dnsLabel.MatchString(text) {
		return text
	}
	return "0." + hex.EncodeToString([]byte(text))
}

// Requests of pods to CNI plugins that need a grant (DelegationGrantSpec.Requests).
const (
	DelegationRequestArgs = "cni-args"
	DelegationRequestMAC  = "mac"
	DelegationRequestGUID = "infiniband-guid"
)

// DelegationGrantSpec names networks, and the plugins and settings that their configurations
// may have. It is about configurations in NetworkAttachmentDefinitions, and in networks of
// DANM with a static type. Each plugin runs as root on the nodes, with a configuration that a
// definition's author has written, or with one of the nodes' files.
// +kubebuilder:validation:XValidation:rule="has(self.namespaces) || has(self.networks)",message="name namespaces or networks: otherwise the grant covers no network"
// +kubebuilder:validation:XValidation:rule="has(self.plugins) || has(self.settings) || has(self.fromNamespaces)",message="name plugins, settings or fromNamespaces: otherwise the grant permits nothing"
// +kubebuilder:validation:XValidation:rule="!has(self.fromNamespaces) || has(self.namespaces)",message="fromNamespaces needs namespaces: pods of these may use the definitions"
type DelegationGrantSpec struct {
	// Namespaces: every network of these namespaces has the grant. A namespace with the label
	// alioth.dev/tenant has none, even if the list names it.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// FromNamespaces are further namespaces. Pods in Namespaces may select their
	// NetworkAttachmentDefinitions that name a network of Alioth, and, with Plugins, their
	// definitions with a configuration for CNI plugins. The latter need a namespace without the
	// label alioth.dev/tenant. Authors of definitions there decide which interfaces these pods
	// get within the grant.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	FromNamespaces []string `json:"fromNamespaces,omitempty"`
	// Networks are single networks with the grant: NetworkAttachmentDefinitions as
	// namespace/name, networks of DANM with a static type as DanmNet/namespace/name,
	// TenantNetwork/namespace/name or ClusterNetwork/name.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=331
	// +kubebuilder:validation:items:Pattern=`^(((DanmNet|TenantNetwork)/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?|ClusterNetwork)/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Networks []string `json:"networks,omitempty"`
	// Plugins are the types of CNI plugins that a configuration may have, for example
	// bridge. Plugins of Alioth can't be named.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9][-A-Za-z0-9_.]*$`
	// +kubebuilder:validation:XValidation:rule="self.all(p, !p.lowerAscii().startsWith('alioth'))",message="plugins of Alioth are not for other configurations"
	// +listType=set
	// +optional
	Plugins []string `json:"plugins,omitempty"`
	// IPAM are the types of IPAM plugins that a configuration may have, for example
	// host-local. Empty means none.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9][-A-Za-z0-9_.]*$`
	// +kubebuilder:validation:XValidation:rule="self.all(p, !p.lowerAscii().startsWith('alioth'))",message="plugins of Alioth are not for other configurations"
	// +listType=set
	// +optional
	IPAM []string `json:"ipam,omitempty"`
	// Requests are keys of k8s.v1.cni.cncf.io/networks that the pods may use beside
	// the keys that need no grant: cni-args, mac, infiniband-guid.
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=cni-args;mac;infiniband-guid
	// +listType=set
	// +optional
	Requests []string `json:"requests,omitempty"`
	// Settings are keys of the annotation alioth.dev/sriov that NetworkAttachmentDefinitions
	// may have beside the keys that need no grant. With them a pod may send in the name of
	// other hosts, or has precedence over others: spoofchk, trust, min_tx_rate, vlanQoS,
	// vlanProto.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:Enum=spoofchk;trust;min_tx_rate;vlanQoS;vlanProto
	// +listType=set
	// +optional
	Settings []string `json:"settings,omitempty"`
}

// DelegationGrant permits configurations that make nodes run other CNI plugins for pods.
// Without a grant, nodes run none. Cluster administrators write grants. The end of a grant
// concerns new pods only.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=delegationgrants,singular=delegationgrant
// +kubebuilder:printcolumn:name="Namespaces",type=string,JSONPath=`.spec.namespaces`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.fromNamespaces`
// +kubebuilder:printcolumn:name="Networks",type=string,JSONPath=`.spec.networks`
// +kubebuilder:printcolumn:name="Plugins",type=string,JSONPath=`.spec.plugins`
// +kubebuilder:printcolumn:name="IPAM",type=string,JSONPath=`.spec.ipam`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DelegationGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DelegationGrantSpec `json:"spec"`
}

// DelegationGrantList is a list of DelegationGrants.
// +kubebuilder:object:root=true
type DelegationGrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DelegationGrant `json:"items"`
}

func init() {
	register(&AttachmentClaim{}, &AttachmentClaimList{})
	register(&DelegationGrant{}, &DelegationGrantList{})
}
