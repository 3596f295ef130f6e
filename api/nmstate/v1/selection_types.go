// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Affinity has the form of a pod's affinity. Only its nodeAffinity has a meaning for a policy.
// +kubebuilder:validation:XValidation:rule="!has(self.podAffinity)",message="podAffinity is not supported: a policy is for nodes, and not for the nodes of pods; use nodeAffinity"
// +kubebuilder:validation:XValidation:rule="!has(self.podAntiAffinity)",message="podAntiAffinity is not supported: a policy is for nodes, and not for the nodes of pods; use nodeAffinity"
type Affinity struct {
	// NodeAffinity: the required terms select nodes. The preferred ones do not matter,
	// because a policy is for all nodes that it selects.
	// +optional
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
	// PodAffinity is refused.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	PodAffinity *runtime.RawExtension `json:"podAffinity,omitempty"`
	// PodAntiAffinity is refused.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	PodAntiAffinity *runtime.RawExtension `json:"podAntiAffinity,omitempty"`
}

// MatchRule selects interfaces of a node's current state. An interface must match every field
// of the rule.
// +kubebuilder:validation:XValidation:rule="!has(self.lldp)",message="lldp is not supported: match by name, type or vlanID"
// +kubebuilder:validation:XValidation:rule="has(self.lldp) || has(self.name) || has(self.type) || has(self.vlanID)",message="a match rule must have a name, a type or a vlanID"
type MatchRule struct {
	// Name of the interface.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[\pL\pM\pN\pP\pS]+$`
	// +optional
	Name string `json:"name,omitempty"`
	// Type of the interface, for example ethernet or bond.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Type string `json:"type,omitempty"`
	// VLANID is the VLAN of an interface of type vlan.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	// +optional
	VLANID int32 `json:"vlanID,omitempty"`
	// LLDP is refused.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	LLDP *runtime.RawExtension `json:"lldp,omitempty"`
}

// ReachTarget is an address that a node has to reach: HOST has to answer echo requests, HOST:PORT
// to accept TCP connections. Nothing else is sent there.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:XValidation:rule="self.matches('^(([a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?[.])*[a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?[.]?|[[][0-9a-fA-F:.]*:[0-9a-fA-F:.]*[]])(:(6553[0-5]|655[0-2][0-9]|65[0-4][0-9][0-9]|6[0-4][0-9][0-9][0-9]|[1-5][0-9][0-9][0-9][0-9]|[1-9][0-9]?[0-9]?[0-9]?))?$|^[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*$')",message="want HOST or HOST:PORT, such as 192.0.2.10, storage.example.com:443 or [2001:db8::1]:6443"
// +kubebuilder:validation:XValidation:rule="!self.matches('^(0|22[4-9]|2[3-5][0-9])[.][0-9]+[.][0-9]+[.][0-9]+(:|$)|^[[]?([fF][fF][0-9a-fA-F]{0,2}:|[0:]+([]]|$))')",message="want the address of one host, neither unspecified nor of a group"
type ReachTarget string

// Precedence ranks a policy among the others.
type Precedence struct {
	// Affinity selects nodes by their labels and names; none selects all nodes.
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`
	// Priority decides which policy sets a field that several policies name: the policy with the
	// higher number, and of equal ones the policy whose name is first in the alphabet. Fields
	// that are set by hand in a NodeNetworkState come before all policies.
	// +kubebuilder:default=0
	// +optional
	Priority int32 `json:"priority"`
	// KeepOnDelete leaves the nodes as they are when the policy is deleted. By default
	// the fields that only this policy has set are undone.
	// +optional
	KeepOnDelete bool `json:"keepOnDelete,omitempty"`
}
