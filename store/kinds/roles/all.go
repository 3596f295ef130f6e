// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package roles has the kinds of bouncers and dividers (docs/design/140). A node follows the
// members on itself, and the members of the VPCs whose packets it carries.
package roles

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// all are the kinds of the area: each adds itself where it is defined.
var all descriptor.Set

// All lists the kinds of the area.
func All() []*descriptor.Kind { return slices.Clone(all) }

// Member is the kind of the part of one node in one role.
var Member = descriptor.Define(&all, descriptor.Description[*v1alpha1.RoleMember, roles.Member]{
	Name: "RoleMember", Object: &v1alpha1.RoleMember{}, List: &v1alpha1.RoleMemberList{}, Convert: convertMember,
	Table:  descriptor.ByName(roles.GetMember, roles.PutMember, roles.DeleteMember),
	OnNode: descriptor.WithField("spec.node"),
	Of:     descriptor.Scopes{descriptor.RoleMembers: descriptor.WithField("spec.vpc")},
})

// NodeRoles is the kind of the nodes' reports about the members that they list.
var NodeRoles = descriptor.Define(&all, descriptor.Description[*v1alpha1.NodeRoles, roles.NodeRoles]{
	Name: "NodeRoles", Object: &v1alpha1.NodeRoles{}, List: &v1alpha1.NodeRolesList{}, Convert: convertNodeRoles,
	Table: descriptor.ByName(roles.GetNodeRoles, roles.PutNodeRoles, roles.DeleteNodeRoles),
})

// convertMember converts a RoleMember.
func convertMember(in *v1alpha1.RoleMember) (*roles.Member, error) {
	err := cmp.Or(values.Known("spec.role", in.Spec.Role, v1alpha1.RoleBouncer, v1alpha1.RoleDivider),
		values.Known("spec.stage", in.Spec.Stage, v1alpha1.StageJoining, v1alpha1.StageServing, v1alpha1.StageLeaving))
	if err != nil {
		return nil, fmt.Errorf("convert RoleMember %s: %w", in.Name, err)
	}
	return &roles.Member{
		Meta: values.Meta(
			in,
		), Name: in.Name, VPC: in.Spec.VPC, VPCUID: in.Spec.VPCUID, Subnet: in.Spec.Subnet, SubnetUID: in.Spec.SubnetUID,
		Node: in.Spec.Node, NodeUID: in.Spec.NodeUID, Stage: string(in.Spec.Stage), Revision: in.Spec.Revision,
		Complete: in.Status.Complete,
	}, nil
}

// convertNodeRoles converts a NodeRoles. It never fails.
func convertNodeRoles(in *v1alpha1.NodeRoles) (*roles.NodeRoles, error) {
	row := &roles.NodeRoles{Meta: values.Meta(in), Name: in.Name, Protocol: in.Spec.Protocol, Listed: map[string]int64{}}
	for _, vpc := range in.Spec.VPCs {
		row.Listed[vpc.UID] = vpc.Revision
	}
	for _, owner := range in.OwnerReferences {
		if owner.APIVersion == "v1" && owner.Kind == "Node" && owner.Name == in.Name {
			row.NodeUID = string(owner.UID)
		}
	}
	return row, nil
}
