// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package role

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// mentioned is the number of nodes that a message names.
const mentioned = 3

// summary returns the state of a role of n nodes.
func (p *planner) summary(n int, members []*roles.Member) Summary {
	if n == 0 {
		return Summary{}
	}
	s := Summary{Wanted: n, Reason: v1alpha1.RolesServingReason}
	for _, m := range members {
		if m.Stage == roles.Serving {
			s.Serving = append(s.Serving, m.Node)
		}
	}
	slices.Sort(s.Serving)
	switch {
	case p.world.Off:
		s.Reason = v1alpha1.ScaledEndpointsOffReason
		s.Message = "nodes with bouncers or dividers need what the operator judges of Services: set scaledEndpoints.enabled of the chart to true"
	case len(p.old) > 0:
		s.Reason = v1alpha1.NodesLackRolesReason
		s.Message = fmt.Sprintf(
			"the daemons of %s can't use roles yet: no members are made until all nodes with pods of the VPC run a release that can",
			few(p.old),
		)
	case len(p.candidates) < n:
		s.Reason, s.Message = v1alpha1.TooFewRoleNodesReason, p.tooFew(n)
	case len(s.Serving) < n:
		s.Reason = v1alpha1.RolesJoiningReason
		s.Message = fmt.Sprintf("%d of %d nodes serve; the others are filling their tables", len(s.Serving), n)
	default:
		s.Ready, s.Message = true, fmt.Sprintf("%d nodes serve", len(s.Serving))
	}
	return s
}

// tooFew says how many nodes are missing, and which nodes a label would make eligible.
func (p *planner) tooFew(n int) string {
	text := fmt.Sprintf("%d nodes are wanted and %d can take a role", n, len(p.candidates))
	var unlabelled []string
	for _, name := range slices.Sorted(maps.Keys(p.world.Nodes)) {
		node := p.world.Nodes[name]
		if !node.Eligible && node.Alive && node.Replied {
			unlabelled = append(unlabelled, name)
		}
	}
	if len(unlabelled) == 0 {
		return text + "; a node must be Ready and run the daemon"
	}
	return fmt.Sprintf("%s; the label %s=true is missing on %s", text, v1alpha1.RoleNodeLabel, few(unlabelled))
}

// few names some nodes, and counts the others.
func few(names []string) string {
	if len(names) <= mentioned {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mentioned], ", "), len(names)-mentioned)
}
