// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// RolesReadyCondition is the condition type of VPCs with dividers and Subnets with bouncers
// that reports whether as many nodes serve as the spec asks for.
const RolesReadyCondition = "RolesReady"

// Reasons of the RolesReady condition.
const (
	// RolesServingReason: as many nodes serve as are wanted.
	RolesServingReason = "RolesServing"
	// RolesJoiningReason: chosen nodes are filling their tables.
	RolesJoiningReason = "RolesJoining"
	// TooFewRoleNodesReason: fewer nodes can take a role than are wanted.
	TooFewRoleNodesReason = "TooFewRoleNodes"
	// ScaledEndpointsOffReason: the chart has scaledEndpoints.enabled false, without which
	// nodes can't do without tables.
	ScaledEndpointsOffReason = "ScaledEndpointsOff"
	// NodesLackRolesReason: a node runs a release that can't use roles.
	NodesLackRolesReason = "NodesLackRoles"
)
