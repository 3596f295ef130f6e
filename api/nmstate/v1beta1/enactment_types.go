// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MetaInfo has the time when a state was made, and the version of its handler.
type MetaInfo struct {
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// CapturedState is the result of an expression of a policy.
type CapturedState struct {
	// State is a state document with the result of the expression.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	State *runtime.RawExtension `json:"state,omitempty"`
	// +optional
	MetaInfo MetaInfo `json:"metaInfo,omitempty,omitzero"`
}

// Slot permits a node to change. A node begins only with a slot that has not expired.
type Slot struct {
	// Holder is the name of the node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Holder string `json:"holder"`
	// Expires is the end of the slot, whatever the node did. A slot that the operator took
	// back has the time of its grant here.
	Expires metav1.MicroTime `json:"expires"`
	// PolicyUID and Generation identify the policy that the operator granted the slot for. A
	// failure counts only if the node had a slot for that policy and generation.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PolicyUID string `json:"policyUID,omitempty"`
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// Trial is a change of the applied part of a policy.
type Trial struct {
	// Open: the node's state handler has not reported the result of the change yet.
	// +optional
	Open bool `json:"open,omitempty"`
	// FormerState is the state that was applied before, and FormerPriority its priority. After a
	// failed change the node goes back to that state.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	FormerState *runtime.RawExtension `json:"formerState,omitempty"`
	// +optional
	FormerPriority int32 `json:"formerPriority,omitempty"`
	// Failures is the number of failed changes in a row.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// Next is the time of the next try. The policy is tried earlier if seen changes.
	// +optional
	Next *metav1.Time `json:"next,omitempty"`
	// Seen is a digest of the policy's environment after the last failure: which of its
	// interfaces were there, and the state that others desired of the node.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Seen string `json:"seen,omitempty"`
}

// PolicyReference names a policy.
type PolicyReference struct {
	// Kind is NodeNetConfPolicy or NodeNetworkConfigurationPolicy.
	// +kubebuilder:validation:Enum=NodeNetConfPolicy;NodeNetworkConfigurationPolicy
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID is the UID of the policy: a successor of the same name has another UID.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	UID string `json:"uid,omitempty"`
}

// NodeNetworkConfigurationEnactmentStatus is the result of a policy on a node.
type NodeNetworkConfigurationEnactmentStatus struct {
	// Policy is the policy that the enactment is about.
	// +optional
	Policy *PolicyReference `json:"policy,omitempty"`
	// DesiredState is the desired state of the policy, rendered for the node.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	DesiredState *runtime.RawExtension `json:"desiredState,omitempty"`
	// +optional
	DesiredStateMetaInfo MetaInfo `json:"desiredStateMetaInfo,omitempty,omitzero"`
	// CapturedStates are the results of the policy's expressions, by name. They are made
	// once for a generation of the policy, before the node changes.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	CapturedStates map[string]CapturedState `json:"capturedStates,omitempty"`
	// PolicyGeneration is the generation of the policy that this status describes.
	// +optional
	PolicyGeneration int64 `json:"policyGeneration,omitempty"`
	// AppliedState is the part of the policy in the node's desired state, possibly of an older
	// generation: it changes when the node has a slot.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	AppliedState *runtime.RawExtension `json:"appliedState,omitempty"`
	// AppliedPriority is the priority of the fields of appliedState.
	// +optional
	AppliedPriority int32 `json:"appliedPriority,omitempty"`
	// Trial is the last change of appliedState, if its result is not known yet, or if the
	// change failed.
	// +optional
	Trial *Trial `json:"trial,omitempty"`
	// KeepOnDelete is the policy's keepOnDelete. The policy may be gone when it is needed.
	// +optional
	KeepOnDelete bool `json:"keepOnDelete,omitempty"`
	// StateBefore is the state of the node before the policy was applied first, as far as
	// the policy may change it. The end of the policy restores it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	StateBefore *runtime.RawExtension `json:"stateBefore,omitempty"`
	// Undoing is the state that restores stateBefore while the policy ends. The enactment is
	// deleted once the node has it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	Undoing *runtime.RawExtension `json:"undoing,omitempty"`
	// Overruled has the fields of the policy that others have on the node, with their
	// owners. It is cut after 1024 bytes.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Overruled string `json:"overruled,omitempty"`
	// Conditions: Available, Failing, Pending, Progressing, Aborted. One of them is True.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.reason.size() <= 128 && c.message.size() <= 1024)",message="a condition has a reason of 128 and a message of 1024 characters at most"
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Slot is granted by the operator alone. The number of changing nodes is the number of
	// enactments with a slot that has not expired.
	// +optional
	Slot *Slot `json:"slot,omitempty"`
}

// NodeNetworkConfigurationEnactment is the result of a policy on a node. Its name is
// <node>.<policy>, with the suffix .netconf for a NodeNetConfPolicy, and with the suffix
// .parts-2 for a policy whose name has two parts with a dot between them.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.policy) || has(self.status) && has(self.status.policy)",message="status.policy can't be removed: the slot of the enactment counts for its policy"
// +kubebuilder:resource:scope=Cluster,path=nodenetworkconfigurationenactments,singular=nodenetworkconfigurationenactment,shortName=nnce
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.status=="True")].type`
// +kubebuilder:printcolumn:name="Status Age",type=date,JSONPath=`.status.conditions[?(@.status=="True")].lastTransitionTime`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.status=="True")].reason`
type NodeNetworkConfigurationEnactment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Status NodeNetworkConfigurationEnactmentStatus `json:"status,omitempty,omitzero"`
}

// NodeNetworkConfigurationEnactmentList is a list of NodeNetworkConfigurationEnactments.
// +kubebuilder:object:root=true
type NodeNetworkConfigurationEnactmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeNetworkConfigurationEnactment `json:"items"`
}
