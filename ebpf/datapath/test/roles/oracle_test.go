// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// arrival is the way of a packet to a node: from its own pod, or with a class from another node.
type arrival struct {
	fromPod bool
	class   trial.Hop
	by      place
	local   bool // its source is a pod of this node
}

const returned = trial.Hop(1)

// outcome is a permitted act of a node on the packet: drop it, deliver it, or send it to one of
// nodes.
type outcome struct {
	reason string
	class  trial.Hop
	nodes  []netip.Addr
}

func drops(reason string) outcome { return outcome{reason: reason} }

func sends(class trial.Hop, nodes ...netip.Addr) outcome {
	reason := "forwarded_role"
	switch class {
	case trial.ByRow:
		reason = "forwarded_remote"
	case returned:
		reason = "returned"
	}
	return outcome{reason, class, nodes}
}

// decides applies the table of docs/design/141-classes-of-packets.md.
func (c tables) decides(a arrival) outcome {
	switch {
	case a.fromPod:
		return c.fromPod()
	case a.local && a.class == returned:
		return c.comesBack(a.by)
	case a.local:
		return drops("spoofed_local")
	case a.class == returned:
		return drops("returned_foreign")
	case c.held == here:
		return drops("forwarded_local")
	}
	switch a.class {
	case trial.ByRow:
		return c.direct(a.by)
	case trial.ToDivider:
		return c.divides(a.by)
	case trial.ToBouncer:
		if !c.knowsSubnet || c.subnetIsWholeHere || c.bouncer == none {
			return drops("not_member")
		}
		return c.bounces(c.bouncer == complete)
	}
	return drops("wrong_node")
}

func (c tables) fromPod() outcome {
	switch c.held {
	case first, second:
		return sends(trial.ByRow, c.held.node())
	case toSelf:
		return sends(trial.ByRow, self) // no daemon programs such a row
	case here:
		return drops("forwarded_local")
	case atGateway:
		return drops("gateway_closed")
	case heldOutside:
		return drops("held_outside")
	}
	if !c.gone && (c.cached == first || c.cached == second) {
		return sends(trial.ByRow, c.cached.node())
	}
	switch {
	case c.knowsSubnet && c.subnetIsWholeHere:
		return drops("no_endpoint")
	case c.knowsSubnet:
		return over(trial.ToBouncer, c.bouncer, c.bouncers, "no_endpoint")
	case c.vpcIsWholeHere:
		return drops("no_subnet")
	}
	return over(trial.ToDivider, c.divider, c.dividers, "no_subnet")
}

// over returns the outcome on the way over a role. The sender may itself have a part in the role.
func over(class trial.Hop, p part, bits int, unknown string) outcome {
	switch {
	case p == complete:
		return drops(unknown)
	case bits != 0:
		return sends(class, members(bits)...)
	case p == incomplete:
		return drops("role_incomplete")
	}
	return drops("no_member")
}

func (c tables) direct(by place) outcome {
	switch c.held {
	case heldOutside:
		return drops("held_outside")
	case atGateway:
		return drops("wrong_node")
	}
	return sends(returned, by.node())
}

func (c tables) comesBack(by place) outcome {
	if c.held == here {
		return drops("returned_home")
	}
	if c.held != by && c.cached != by {
		return drops("returned_foreign")
	}
	class, p, bits, whole := trial.ToBouncer, c.bouncer, c.bouncers, c.subnetIsWholeHere
	if !c.knowsSubnet {
		class, p, bits, whole = trial.ToDivider, c.divider, c.dividers, c.vpcIsWholeHere
	}
	switch {
	case whole:
		return drops("stale_row")
	case bits != 0:
		return sends(class, members(bits)...)
	case p != none:
		return drops("stale_row")
	}
	return drops("no_member")
}

func (c tables) divides(by place) outcome {
	switch {
	case c.divider == none:
		return drops("not_member")
	case !c.knowsSubnet && c.divider == complete:
		return drops("no_subnet")
	case !c.knowsSubnet:
		return drops("role_incomplete")
	case c.subnetIsWholeHere || c.bouncer == complete:
		return c.bounces(true)
	case c.bouncer == incomplete:
		return c.bounces(false)
	}
	nodes := slices.DeleteFunc(members(c.bouncers), func(n netip.Addr) bool { return n == by.node() })
	if len(nodes) == 0 {
		return drops("no_member")
	}
	return sends(trial.ToBouncer, nodes...)
}

func (c tables) bounces(whole bool) outcome {
	switch {
	case c.held == first || c.held == second:
		return sends(trial.FromBouncer, c.held.node())
	case c.held == heldOutside:
		return drops("held_outside")
	case c.held != nowhere:
		return drops("wrong_node")
	case whole:
		return drops("no_endpoint")
	}
	return drops("role_incomplete")
}
