// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// NodeNetConfPolicySpec is the desired state of the interfaces of nodes.
// +kubebuilder:validation:XValidation:rule="!has(self.autoconfig)",message="autoconfig is not supported: declare bonds and VLANs in desiredState"
// +kubebuilder:validation:XValidation:rule="has(self.autoconfig) || has(self.desiredState)",message="desiredState must be set"
type NodeNetConfPolicySpec struct {
	Precedence `json:",inline"`
	// Tolerations: the policy is for nodes all of whose NoSchedule and NoExecute taints are
	// tolerated. Taints of the domain node.kubernetes.io do not matter: Kubernetes itself sets
	// them on a node that is not well.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// MatchRules select interfaces of a node's current state, which one rule must match.
	// The interface of desiredState without a name then stands for each of them. On a node
	// without such an interface the policy sets nothing.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	MatchRules []MatchRule `json:"matchRules,omitempty"`
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
	// Autoconfig is refused.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	Autoconfig *runtime.RawExtension `json:"autoconfig,omitempty"`
}

// NodeNetConfPolicyStatus is the observed state of a policy. Only the operator writes it.
type NodeNetConfPolicyStatus struct {
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Available, Degraded, Progressing, Ignored (exactly one of these is True);
	// and Conflict.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// LastSlot is the node that got a slot last. The next slots go to nodes after it, by name,
	// so that each node has its turn.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	LastSlot string `json:"lastSlot,omitempty"`
}

// NodeNetConfPolicy sets a part of the desired network state of the nodes that it selects.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=nodenetconfpolicies,singular=nodenetconfpolicy
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.status=="True")].type`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="True")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeNetConfPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeNetConfPolicySpec `json:"spec"`
	// +optional
	Status NodeNetConfPolicyStatus `json:"status,omitempty,omitzero"`
}

// NodeNetConfPolicyList is a list of NodeNetConfPolicies.
// +kubebuilder:object:root=true
type NodeNetConfPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeNetConfPolicy `json:"items"`
}
