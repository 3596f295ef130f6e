// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Requests of pods to CNI plugins that need a grant (DelegationGrantSpec.Requests).
const (
	DelegationRequestArgs = "cni-args"
	DelegationRequestMAC  = "mac"
	DelegationRequestGUID = "infiniband-guid"
)

// DelegationGrantSpec names networks and what their configurations may run: those of
// NetworkAttachmentDefinitions, and of networks of DANM with a static type. Each plugin
// runs as root on the nodes, with a configuration that a definition's author has written,
// or one of the nodes' files.
// +kubebuilder:validation:XValidation:rule="has(self.namespaces) || has(self.networks)",message="name namespaces or networks: otherwise the grant covers no network"
// +kubebuilder:validation:XValidation:rule="has(self.plugins) || has(self.settings) || has(self.fromNamespaces)",message="name plugins, settings or fromNamespaces: otherwise the grant permits nothing"
// +kubebuilder:validation:XValidation:rule="!has(self.fromNamespaces) || has(self.namespaces)",message="fromNamespaces needs namespaces: pods of these may use the definitions"
type DelegationGrantSpec struct {
	// Namespaces of which every network has the grant. One with the label
	// alioth.dev/tenant has none, even if the list names it.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// FromNamespaces are further namespaces whose NetworkAttachmentDefinitions pods in
	// Namespaces may select: those that name a network of Alioth, and, with Plugins, those
	// with a configuration for CNI plugins. The latter need a namespace without the label
	// alioth.dev/tenant. Everybody who writes definitions there decides what these pods get
	// within the grant.
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
	// those that need no grant: cni-args, mac, infiniband-guid.
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=cni-args;mac;infiniband-guid
	// +listType=set
	// +optional
	Requests []string `json:"requests,omitempty"`
	// Settings are keys of the annotation alioth.dev/sriov that NetworkAttachmentDefinitions
	// may have beside those that need no grant. With them a pod may send in the name of
	// other hosts, or has precedence over others: spoofchk, trust, min_tx_rate, vlanQoS,
	// vlanProto.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:Enum=spoofchk;trust;min_tx_rate;vlanQoS;vlanProto
	// +listType=set
	// +optional
	Settings []string `json:"settings,omitempty"`
}

// DelegationGrant permits configurations by which nodes run other CNI plugins for pods.
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
	register(&DelegationGrant{}, &DelegationGrantList{})
}
