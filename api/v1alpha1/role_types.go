// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RoleNodeLabel with the value "true" makes a node eligible for roles. A kubelet can't
// set labels of this domain on its own Node (admission plugin NodeRestriction).
const RoleNodeLabel = "alioth.node-restriction.kubernetes.io/role"

// RoleProtocol is the lowest NodeRolesSpec.Protocol of a node that sends, forwards and
// returns packets by roles.
const RoleProtocol = 1

// Role is the role of a node for a subnet or VPC.
// +kubebuilder:validation:Enum=Bouncer;Divider
// +kubebuilder:validation:MaxLength=16
type Role string

const (
	// RoleBouncer has all Addresses of a subnet.
	RoleBouncer Role = "Bouncer"
	// RoleDivider has all Subnets of a VPC and their bouncers.
	RoleDivider Role = "Divider"
)

// Stage is the progress of a member. Senders list only members that are Serving.
// +kubebuilder:validation:Enum=Joining;Serving;Leaving
type Stage string

const (
	// StageJoining means that the member fills its table.
	StageJoining Stage = "Joining"
	// StageServing means that senders list the member.
	StageServing Stage = "Serving"
	// StageLeaving means that the member answers until no sender lists it.
	StageLeaving Stage = "Leaving"
)

// RoleMemberSpec is the part of one node in one role. Only stage and revision change.
// +kubebuilder:validation:XValidation:rule="self.role == oldSelf.role && self.vpc == oldSelf.vpc && self.vpcUID == oldSelf.vpcUID && has(self.subnet) == has(oldSelf.subnet) && (!has(self.subnet) || self.subnet == oldSelf.subnet) && (!has(self.subnetUID) || self.subnetUID == oldSelf.subnetUID) && self.node == oldSelf.node && self.nodeUID == oldSelf.nodeUID",message="of a RoleMember only spec.stage and spec.revision can change"
// +kubebuilder:validation:XValidation:rule="self.revision >= oldSelf.revision",message="spec.revision of a RoleMember can't decrease"
// +kubebuilder:validation:XValidation:rule="(self.role == 'Bouncer') == has(self.subnet) && has(self.subnet) == has(self.subnetUID)",message="a Bouncer has spec.subnet and spec.subnetUID, a Divider has neither"
type RoleMemberSpec struct {
	// Role is Bouncer or Divider.
	Role Role `json:"role"`
	// VPC is the name of the VPC.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	VPC string `json:"vpc"`
	// VPCUID is the UID of that VPC.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	VPCUID string `json:"vpcUID"`
	// Subnet is the name of the Subnet object of a Bouncer.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Subnet string `json:"subnet,omitempty"`
	// SubnetUID is the UID of that Subnet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	// +optional
	SubnetUID string `json:"subnetUID,omitempty"`
	// Node is the name of the Node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Node string `json:"node"`
	// NodeUID is the UID of that Node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	NodeUID string `json:"nodeUID"`
	// Stage is Joining, Serving or Leaving.
	Stage Stage `json:"stage"`
	// Revision is the revision of the VPC's members when this object changed last. The
	// highest one is the revision of the list.
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision"`
}

// RoleMemberStatus is the node's report about its table.
type RoleMemberStatus struct {
	// Complete is true once the node has programmed the whole table of the role.
	// +optional
	Complete bool `json:"complete,omitempty"`
}

// RoleMember is the part of one node in one role (docs/design/140). Only the operator
// writes the spec; the daemon of the node writes the status. The name is
// <UID of the Subnet or VPC>.<hash of the node's name>.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=rolemembers,singular=rolemember
// +kubebuilder:selectablefield:JSONPath=`.spec.node`
// +kubebuilder:selectablefield:JSONPath=`.spec.vpc`
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.spec.role`
// +kubebuilder:printcolumn:name="VPC",type=string,JSONPath=`.spec.vpc`
// +kubebuilder:printcolumn:name="Subnet",type=string,JSONPath=`.spec.subnet`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.spec.stage`
// +kubebuilder:printcolumn:name="Complete",type=boolean,JSONPath=`.status.complete`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.spec.revision`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.startsWith((has(self.spec.subnetUID) ? self.spec.subnetUID : self.spec.vpcUID) + '.') && self.metadata.name.matches('[.][0-9a-f]{20}$')",message="metadata.name must be <UID of the Subnet or VPC>.<20 hexadecimal digits>"
type RoleMember struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RoleMemberSpec   `json:"spec"`
	Status RoleMemberStatus `json:"status,omitempty"`
}

// RoleMemberName returns the name of the RoleMember of a node in the role of the Subnet or
// VPC with that UID.
func RoleMemberName(uid, node string) string {
	sum := sha256.Sum256([]byte(node))
	return uid + "." + hex.EncodeToString(sum[:10])
}

// RoleMemberList is a list of RoleMembers.
// +kubebuilder:object:root=true
type RoleMemberList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RoleMember `json:"items"`
}

// RolesStatus has the members of a role, as they were written last.
type RolesStatus struct {
	// Wanted is the number of nodes that the spec asks for.
	Wanted int32 `json:"wanted"`
	// Serving is the number of nodes that serve.
	Serving int32 `json:"serving"`
	// Nodes are the names of the nodes that serve, ascending.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Nodes []string `json:"nodes,omitempty"`
}

// ListedMembers is the list of a VPC's members that a node has programmed.
type ListedMembers struct {
	// UID is the UID of the VPC.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	UID string `json:"uid"`
	// Revision is the highest spec.revision of the programmed RoleMembers.
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision"`
}

// NodeRolesSpec is the report of a node about roles.
type NodeRolesSpec struct {
	// Protocol is the version of the daemon's abilities: with 1 it sends, forwards and returns
	// packets by roles. Members are made when every node that runs the daemon reports 1 or more.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Protocol int32 `json:"protocol"`
	// VPCs whose members the node lists.
	// +kubebuilder:validation:MaxItems=4096
	// +listType=map
	// +listMapKey=uid
	// +optional
	VPCs []ListedMembers `json:"vpcs,omitempty"`
}

// NodeRoles acknowledges the lists of role members that a node has programmed
// (docs/design/140). It has the name of the Node, which owns it, and the Node's daemon
// writes it. Only the operator reads it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=noderoles,singular=noderoles
// +kubebuilder:printcolumn:name="Protocol",type=integer,JSONPath=`.spec.protocol`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeRoles struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeRolesSpec `json:"spec"`
}

// NodeRolesList is a list of NodeRoles.
// +kubebuilder:object:root=true
type NodeRolesList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeRoles `json:"items"`
}

const (
	// OperatorRollCall is the name of the RollCall object with the operator's question.
	OperatorRollCall = "operator"
	// NodeRollCallPrefix starts the name of the RollCall object with the reply of a
	// node's daemon; the name of the Node follows.
	NodeRollCallPrefix = "node."
	// MaxNodeName is the maximum length of a Node's name, in bytes. With the prefix it
	// fits the name of an object (RFC 1123: 253).
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
	register(&RoleMember{}, &RoleMemberList{})
	register(&NodeRoles{}, &NodeRolesList{})
	register(&RollCall{}, &RollCallList{})
}
