// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ListedMembers is the list of a VPC's members that a node has programmed.
type ListedMembers struct {
	// UID is that of the VPC.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	UID string `json:"uid"`
	// Revision is the highest spec.revision of the programmed RoleMembers.
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision"`
}

// NodeRolesSpec is what a node reports about roles.
type NodeRolesSpec struct {
	// Protocol is what the node's daemon can do: 1 is to send, forward and return packets
	// by roles. Members are made when every node that runs the daemon reports 1 or more.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Protocol int32 `json:"protocol"`
	// VPCs are those whose members the node lists.
	// +kubebuilder:validation:MaxItems=4096
	// +listType=map
	// +listMapKey=uid
	// +optional
	VPCs []ListedMembers `json:"vpcs,omitempty"`
}

// NodeRoles acknowledges the lists of role members that a node has programmed
// (docs/design/140). Its name is that of the Node, which owns it, and the Node's daemon
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

func init() {
	register(&NodeRoles{}, &NodeRolesList{})
}
