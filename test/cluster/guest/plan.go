// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guest makes nodes of a lab that are virtual machines: their kernel has features that the
// host's may lack, and they have a network adapter with virtual functions.
//
// A machine's file system is an archive in memory, with the programs that nodes run. The lab's
// folder is mounted into it at the same place, so that configurations, keys, archives of images and
// logs have the same paths on the host and in the machine. Its init sets it up and starts the agent
// (package agent). The lab does the rest through the agent.
package guest

import "github.com/alioth-net/alioth/test/cluster/underlay"

const (
	// PlanFile holds the Plan as JSON.
	PlanFile = "/plan.json"
	// ShareTag names the lab's folder for the machine.
	ShareTag = "lab"
	// ModulesDir holds the modules of a Plan.
	ModulesDir = "/modules"
)

// Plan is the work of init.
type Plan struct {
	Topology underlay.Topology
	// Index is the number of the node, from 1.
	Index int
	// Modules are files below ModulesDir in the order of loading.
	Modules []string
	// Share is the lab's folder.
	Share string
	// Private are folders that the machine has in its memory, those below Share
	// included.
	Private []string
}

// Name returns the node's name.
func (p Plan) Name() string { return p.Topology.Node(p.Index) }
