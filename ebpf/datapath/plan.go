// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"slices"
	"strings"
)

// table names one table of tables.
type table string

const (
	tableInterfaces  table = "interfaces"
	tableFlows       table = "flows"
	tableAttachments table = "attachments"
	tableAddresses   table = "addresses"
	tableSubnets     table = "subnets"
	tableRanges      table = "vpc_ranges"
	tableVPCs        table = "vpcs"
	tableNodes       table = "nodes"
	tableNodePorts   table = "node_ports"
	tableAnnounced   table = "announced"
	tableClosed      table = "closed"
	tableServices    table = "services"
	tableBackends    table = "backends"
	tableChoices     table = "choices"
	tableMaglev      table = "maglev"
	tableAffinities  table = "affinities"
	tableTargets     table = "targets"
	tableNamespaces  table = "netns"
)

// operation is one step of Apply.
type operation struct {
	Table  table
	Delete bool
	Key    any
	Value  any // nil for a deletion
}

func (o operation) String() string {
	verb := "put"
	if o.Delete {
		verb = "delete"
	}
	return fmt.Sprintf("%s %s %v", verb, o.Table, o.Key)
}

// difference is what one table lacks and what it has too much. Both lists are
// sorted, so that a plan does not depend on the order of Go maps.
type difference struct {
	puts, deletes []operation
}

func diff[K, V comparable](name table, have, want map[K]V) difference {
	var d difference
	for k, v := range want {
		if old, ok := have[k]; !ok || old != v {
			d.puts = append(d.puts, operation{Table: name, Key: k, Value: v})
		}
	}
	for k := range have {
		if _, ok := want[k]; !ok {
			d.deletes = append(d.deletes, operation{Table: name, Delete: true, Key: k})
		}
	}
	sortByKey(d.puts)
	sortByKey(d.deletes)
	return d
}

// sortByKey orders operations by the text of their keys.
func sortByKey(ops []operation) {
	type keyed struct {
		text string
		op   operation
	}
	texts := make([]keyed, len(ops))
	for i, op := range ops {
		texts[i] = keyed{fmt.Sprint(op.Key), op}
	}
	slices.SortFunc(texts, func(a, b keyed) int { return strings.Compare(a.text, b.text) })
	for i := range texts {
		ops[i] = texts[i].op
	}
}

// makePlan lists the steps from have to want. At every point between two steps
// nothing may be open that is open in neither, and no packet may be lost that
// both let through:
//
//   - What must not receive or be believed any more goes first: addresses that
//     are gone, the sockets' targets and namespaces, nodes.
//   - Restrictions are written before what they restrict: closed prefixes and
//     the VPC's ranges before a VPC's egress is opened, and they are removed
//     only after it is closed.
//   - A service's backends, and how to choose among them, are written under a
//     fresh id, and its VPC gets a table of affinities, before the service points
//     to it, and the old ones removed after. A service that goes is removed before
//     its backends.
//   - An interface's row and its share of flows exist before programs are
//     attached to it, and its programs are attached before its address leads
//     there. When it goes, its row goes last.
//
// Programs are never taken from a device that still exists: without its row
// they drop everything, whereas a device without programs would hand a pod's
// packets to the host's stack. They go with the device.
func makePlan(have, want *tables) []operation {
	addresses := diff(tableAddresses, have.addresses, want.addresses)
	targets := diff(tableTargets, have.targets, want.targets)
	namespaces := diff(tableNamespaces, have.namespaces, want.namespaces)
	nodes := diff(tableNodes, have.nodes, want.nodes)
	nodePorts := diff(tableNodePorts, have.nodePorts, want.nodePorts)
	announced := diff(tableAnnounced, have.announced, want.announced)
	closed := diff(tableClosed, have.closed, want.closed)
	ranges := diff(tableRanges, have.ranges, want.ranges)
	subnets := diff(tableSubnets, have.subnets, want.subnets)
	vpcs := diff(tableVPCs, have.vpcs, want.vpcs)
	backends := diff(tableBackends, have.backends, want.backends)
	choices := diff(tableChoices, have.choices, want.choices)
	maglev := diff(tableMaglev, have.maglev, want.maglev)
	affinities := diff(tableAffinities, have.affinities, want.affinities)
	services := diff(tableServices, have.services, want.services)
	interfaces := diff(tableInterfaces, have.interfaces, want.interfaces)
	flows := diff(tableFlows, have.flows, want.flows)
	attachments := diff(tableAttachments, have.attachments, want.attachments)
	return slices.Concat(
		addresses.deletes, targets.deletes, namespaces.deletes, nodes.deletes, nodePorts.deletes, announced.deletes,
		closed.puts, ranges.puts, subnets.puts, nodes.puts, vpcs.puts, nodePorts.puts,
		backends.puts, maglev.puts, affinities.puts, choices.puts, services.puts,
		services.deletes, choices.deletes, affinities.deletes, maglev.deletes, backends.deletes,
		interfaces.puts, flows.puts, attachments.puts,
		addresses.puts, targets.puts, namespaces.puts, announced.puts,
		flows.deletes, interfaces.deletes,
		vpcs.deletes, subnets.deletes, ranges.deletes, closed.deletes,
	)
}
