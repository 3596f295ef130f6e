// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodeNetworkConfigurationPolicySpec is the desired state of the networks of nodes.
type NodeNetworkConfigurationPolicySpec struct {
	Precedence `json:",inline"`
	// NodeSelector: the policy is for nodes with all of these labels.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations: the policy is for nodes all of whose NoSchedule and NoExecute taints are
	// tolerated. Taints of the domain node.kubernetes.io do not matter. Without any
	// toleration no taint matters, as in kubernetes-nmstate.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Capture has expressions on the node's current state, by name. DesiredState may refer
	// to their results: {{ capture.<name>.<path> }}.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Capture map[string]string `json:"capture,omitempty"`
	// DesiredState is a state document.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	DesiredState *runtime.RawExtension `json:"desiredState,omitempty"`
	// Reach are targets that a node has to reach after it has changed for the policy: HOST has to
	// answer echo requests, HOST:PORT to accept TCP connections, within 60 seconds. Otherwise the
	// node undoes the change.
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	// +optional
	Reach []ReachTarget `json:"reach,omitempty"`
	// MaxUnavailable is the number of nodes, or the percentage of the nodes that the policy
	// selects, that may change at the same time: at least one node. 50% is the default.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%?$')",message="maxUnavailable must be a number or a percentage, for example 3 or 50%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// NodeNetworkConfigurationPolicyStatus is the observed state of a policy. Only the operator
// writes it.
type NodeNetworkConfigurationPolicyStatus struct {
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Available, Degraded, Progressing, Ignored (exactly one of these is True);
	// and Conflict.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// UnavailableNodeCount is the number of nodes that change now. It is for people: the
	// enactments decide which nodes may change next.
	// +optional
	UnavailableNodeCount int32 `json:"unavailableNodeCount,omitempty"`
	// LastUnavailableNodeCountUpdate is the time when UnavailableNodeCount changed.
	// +optional
	LastUnavailableNodeCountUpdate *metav1.Time `json:"lastUnavailableNodeCountUpdate,omitempty"`
	// LastSlot is the node that got a slot last. The next slots go to nodes after it, by name,
	// so that each node has its turn.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	LastSlot string `json:"lastSlot,omitempty"`
}

// NodeNetworkConfigurationPolicy sets a part of the desired network state of the nodes that
// it selects. A few nodes change at a time. If too many fail, no further nodes change.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=nodenetworkconfigurationpolicies,singular=nodenetworkconfigurationpolicy,shortName=nncp
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.status=="True")].type`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="True")].reason`
type NodeNetworkConfigurationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec NodeNetworkConfigurationPolicySpec `json:"spec,omitempty"`
	// +optional
	Status NodeNetworkConfigurationPolicyStatus `json:"status,omitempty,omitzero"`
}

// NodeNetworkConfigurationPolicyList is a list of NodeNetworkConfigurationPolicies.
// +kubebuilder:object:root=true
type NodeNetworkConfigurationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeNetworkConfigurationPolicy `json:"items"`
}
