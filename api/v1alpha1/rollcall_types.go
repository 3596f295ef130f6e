// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// OperatorRollCall is the name of the RollCall object with the operator's question.
	OperatorRollCall = "operator"
	// NodeRollCallPrefix starts the name of the RollCall object with the reply of a
	// node's daemon; the name of the Node follows.
	NodeRollCallPrefix = "node."
	// MaxNodeName is the maximum length of a Node's name, in bytes, with which the
	// prefix fits the name of an object (RFC 1123: 253).
	MaxNodeName = 253 - len(NodeRollCallPrefix)
	// NoCall is the call in the reply of a daemon before the first question.
	NoCall = "none"
)

// NodeRollCall returns the name of the RollCall object of a node.
func NodeRollCall(node string) string { return NodeRollCallPrefix + node }

// RollCallSpec is a question of the operator, or the reply of a node.
type RollCallSpec struct {
	// Call is a text that is new with every question. A node repeats it once the API
	// has claims for all attachments of the node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Call string `json:"call"`
	// VNIs that the node programs or has a sandbox of, ascending; not set by the
	// operator.
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=16777215
	// +listType=set
	// +optional
	VNIs []int32 `json:"vnis,omitempty"`
}

// RollCall is the operator's question to all nodes about their attachments, or the reply
// of a node (docs/design/010-roll-call.md): the object "operator" has the question,
// "node.<name of the Node>" the reply of a node.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=rollcalls,singular=rollcall
// +kubebuilder:printcolumn:name="Call",type=string,JSONPath=`.spec.call`
// +kubebuilder:printcolumn:name="VNIs",type=string,JSONPath=`.spec.vnis`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'operator' ? !has(self.spec.vnis) : self.metadata.name.startsWith('node.')",message="metadata.name must be operator, which has no VNIs, or node.<name of a Node>"
type RollCall struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RollCallSpec `json:"spec"`
}

// RollCallList is a list of RollCalls.
// +kubebuilder:object:root=true
type RollCallList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RollCall `json:"items"`
}

func init() {
	register(&RollCall{}, &RollCallList{})
}
