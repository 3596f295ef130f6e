// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
)

// ManualOwner is the owner of parts of a desired state that were set by hand.
const ManualOwner = "manual"

// MaxOwners bounds the owners in the status of a NodeNetworkState, and MaxRefused the text
// of the refused part, in bytes. MaxReach bounds the targets in each list of the specification.
// MaxParts bounds the parts, MaxPaths the paths of one part, and MaxPath a path in bytes.
// MaxFailure bounds the text of a failure in bytes.
const (
	MaxOwners  = 1024
	MaxRefused = 1024
	MaxReach   = 64
	MaxParts   = 256
	MaxPaths   = 1024
	MaxPath    = 256
	MaxFailure = 512
)

// NodeNetworkStateSpec is the desired state of the network of a node.
type NodeNetworkStateSpec struct {
	// Managed is false for a node that is left alone: nothing is enforced, and nothing
	// reported. The default is true.
	// +kubebuilder:default=true
	// +optional
	Managed *bool `json:"managed,omitempty"`
	// DesiredState is a state document. Policies write their fields into it. They never
	// overwrite fields that are set by hand. A field is set by hand if policyState does not
	// have it, or has it with another value.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	DesiredState *runtime.RawExtension `json:"desiredState,omitempty"`
	// PolicyState is the part of desiredState that policies have written. It distinguishes that
	// part from fields that are set by hand. Only the policy handler writes it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	PolicyState *runtime.RawExtension `json:"policyState,omitempty"`
	// Reach are targets that the node has to reach after each change of its network: HOST has to
	// answer echo requests, HOST:PORT to accept TCP connections. Users set it.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Reach []nmstatev1.ReachTarget `json:"reach,omitempty"`
	// PolicyReach are the targets of the policies that desiredState has, 64 at most, in the
	// order of the policies. A target that a part names has to be reached after changes of that
	// part, and after other changes if it was reached before. A target that no part names has to
	// be reached after each change. Only the policy handler writes it.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	PolicyReach []nmstatev1.ReachTarget `json:"policyReach,omitempty"`
	// Parts divide desiredState. The fields of one part are enforced together. Each part has a
	// transaction of its own, so a part that fails keeps no other from the node. Fields in no
	// part are enforced together too. Only the policy handler writes it.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Parts []Part `json:"parts,omitempty"`
}

// Part is a part of a desired state.
type Part struct {
	// Paths of the fields in the part: interfaces, entries of routes and rules, and whole
	// sections, for example interfaces[eth1] and dns-resolver.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^[\p{L}\p{M}\p{N}\p{P}\p{S} ]+$`
	// +listType=atomic
	Paths []string `json:"paths"`
	// Reach are the targets of the part's policies, 64 at most. The node has to reach them after
	// each change of the part. They have the form of spec.reach.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^[!-~]+$`
	// +listType=atomic
	// +optional
	Reach []string `json:"reach,omitempty"`
}

// Failure is a part of a desired state that the node does not have.
type Failure struct {
	// Path is the first path of the part; it is missing for the fields in no part.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Path string `json:"path,omitempty"`
	// Message has the cause. It is cut after 512 bytes.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
}

// Owner names the owner of a part of the desired state.
type Owner struct {
	// Path of the part, for example interfaces[eth1].mtu. Everything below it belongs to
	// the owner, unless another entry has it.
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path"`
	// Owner is manual, or <kind>/<name> of a policy.
	// +kubebuilder:validation:MaxLength=317
	Owner string `json:"owner"`
}

// NodeNetworkStateStatus is the present state of the network of a node.
type NodeNetworkStateStatus struct {
	// CurrentState is a state document. It does not have interfaces of pods and of Alioth.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	CurrentState *runtime.RawExtension `json:"currentState,omitempty"`
	// LastSuccessfulUpdateTime is the time when currentState was read.
	// +optional
	LastSuccessfulUpdateTime *metav1.Time `json:"lastSuccessfulUpdateTime,omitempty"`
	// HandlerNmstateVersion is the version of Alioth's state handler.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	HandlerNmstateVersion string `json:"handlerNmstateVersion,omitempty"`
	// ObservedDesiredGeneration is the generation of the object whose desired state was
	// enforced last, with success or not.
	// +optional
	ObservedDesiredGeneration int64 `json:"observedDesiredGeneration,omitempty"`
	// DesiredStateHash is the SHA-256 of the desired state that was enforced last, as JSON
	// with sorted keys, in hex.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	DesiredStateHash string `json:"desiredStateHash,omitempty"`
	// Owners of the desired state.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	// +optional
	Owners []Owner `json:"owners,omitempty"`
	// MoreOwners is the number of further owners.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MoreOwners int32 `json:"moreOwners,omitempty"`
	// Refused has the fields of the desired state that are refused, with the causes. It is cut
	// after 1024 bytes.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Refused string `json:"refused,omitempty"`
	// Failures are the parts of the desired state that the node does not have.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Failures []Failure `json:"failures,omitempty"`
	// Conditions: Available, Failing, Conflict, ManagedByOthers, NotRestored.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.reason.size() <= 128 && c.message.size() <= 1024)",message="a condition has a reason of 128 and a message of 1024 characters at most"
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeNetworkState is the network of a node: its present and its desired state. It has the
// name of the node, which makes the object.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=nodenetworkstates,singular=nodenetworkstate,shortName=nns
// +kubebuilder:printcolumn:name="Managed",type=boolean,JSONPath=`.spec.managed`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeNetworkState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The default equals the default of managed, for an object without a spec.
	// +kubebuilder:default={}
	// +optional
	Spec NodeNetworkStateSpec `json:"spec,omitempty"`
	// +optional
	Status NodeNetworkStateStatus `json:"status,omitempty,omitzero"`
}

// NodeNetworkStateList is a list of NodeNetworkStates.
// +kubebuilder:object:root=true
type NodeNetworkStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeNetworkState `json:"items"`
}
