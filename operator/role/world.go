// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package role makes nodes the bouncers of subnets and the dividers of VPCs, and lets them
// go without a gap: members join, serve and leave (docs/design/140).
package role

import (
	"time"

	"github.com/alioth-net/alioth/store/rows/roles"
)

// World is all that the roles of one VPC depend on.
type World struct {
	// Off: the operator judges no Services, so nodes can't do without tables. No role is
	// placed, and members leave.
	Off bool
	// VPC is the VPC, with the UID "" if the VPC does not exist.
	VPC VPC
	// Subnets of the VPC, in any order.
	Subnets []Subnet
	// Nodes of the cluster by name.
	Nodes map[string]Node
	// Members are the RoleMembers that name the VPC.
	Members []*roles.Member
	// Hosts are the names of the nodes with an Address in the VPC. They count only while members
	// leave, or while nodes can't use roles.
	Hosts []string
}

// VPC is a VPC as roles see it.
type VPC struct {
	Name, UID string
	// Dividers is the number in its spec, 0 if it is unset.
	Dividers int
	// Revision is the last revision that was taken for its members, 0 without one.
	Revision int64
}

// Subnet is a Subnet as roles see it.
type Subnet struct {
	Name, UID string
	// Bouncers is the number in its spec, 0 if it is unset.
	Bouncers int
}

// Node is a Node as roles see it.
type Node struct {
	Name, UID, Zone string
	// Alive: it is Ready, not fenced, and not being deleted.
	Alive bool
	// Fenced: an administrator has confirmed that no pod runs there.
	Fenced bool
	// Departing: it is about to be deleted, and does not begin to serve.
	Departing bool
	// Replied: its daemon has replied to a roll call, so it takes part in VPCs.
	Replied bool
	// Capable: its daemon can use roles.
	Capable bool
	// Eligible: it may be a member by its labels.
	Eligible bool
	// Listed is the revision of the VPC's members that it has programmed, as it reports.
	Listed int64
}

// candidate reports whether the node may be chosen for a role.
func (n Node) candidate() bool {
	return n.Alive && !n.Departing && n.Replied && n.Capable && n.Eligible
}

// lacksRoles reports whether the node takes part in VPCs and can't use roles, as far as is
// known.
func (n Node) lacksRoles() bool { return n.Replied && !n.Fenced && !n.Capable }

// Wait has the time since when a member leaves. The operator keeps it in memory: another operator,
// whose clock may differ, waits anew.
type Wait struct {
	// Revision is the revision of the member when it began to leave.
	Revision int64
	// Left is the time when it was first seen to leave. Acknowledged is the time when all nodes
	// were first seen to no longer list it, or when the time for that had passed. Zero means not
	// yet.
	Left, Acknowledged time.Time
}

// Verb is the change that a step makes to a member.
type Verb int

// Verbs of steps.
const (
	Create Verb = iota
	Change
	Delete
)

// Step is one write. For Create and Change, Member is the member as it shall be, with the resource
// version of the row that the decision read.
type Step struct {
	Verb   Verb
	Member roles.Member
}

// Summary is the status of a role.
type Summary struct {
	// Wanted is the number that the spec asks for. With 0 the VPC does not have the role, and the
	// other fields are zero.
	Wanted int
	// Serving are the names of the nodes that serve, ascending.
	Serving []string
	// Ready, Reason and Message are the content of the condition RolesReady.
	Ready           bool
	Reason, Message string
}

// Plan has the next steps.
type Plan struct {
	// Revision is the revision to write into the status of the VPC before the first step; 0 means
	// no new revision.
	Revision int64
	// Steps are to be done in this order. After a failed step, no other one may follow.
	Steps []Step
	// Dividers and Bouncers, by name of the Subnet, are the states of the roles before the
	// steps.
	Dividers Summary
	Bouncers map[string]Summary
	// Waits has the waits for the next plan, by UID of the member.
	Waits map[string]Wait
	// Next is the time until the next look without a change; 0: no look.
	Next time.Duration
}
