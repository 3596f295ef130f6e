// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/ebpf/datapath/hook"
)

// Operation is one step from rows to others.
type Operation struct {
	Table  string
	Delete bool
	Key    any
	Value  any // nil for a deletion
}

// String describes the step for a log.
func (o Operation) String() string {
	verb := "put"
	if o.Delete {
		verb = "delete"
	}
	return fmt.Sprintf("%s %s %v", verb, o.Table, o.Key)
}

// Attachment returns the attachment of the step; false if the step writes a map.
func (o Operation) Attachment() (hook.Attachment, bool) {
	a, ok := o.Key.(hook.Attachment)
	return a, ok
}

// difference has the rows that one table lacks, and the rows that it has in excess. Both lists
// are sorted, so that a plan does not depend on the order of Go maps.
type difference struct {
	puts, deletes []Operation
	// late are puts after which a missing row of another table means that an address or
	// a subnet does not exist.
	late []Operation
}

func (n table[K, V]) diff(had, wanted *Rows) difference {
	have, want := n.of(had), n.of(wanted)
	var d difference
	for k, v := range want {
		if old, ok := have[k]; !ok || old != v {
			d.puts = append(d.puts, Operation{Table: string(n), Key: k, Value: v})
		}
	}
	for k := range have {
		if _, ok := want[k]; !ok {
			d.deletes = append(d.deletes, Operation{Table: string(n), Delete: true, Key: k})
		}
	}
	sortByKey(d.puts)
	sortByKey(d.deletes)
	return d
}

// sortByKey orders operations by the encoding of their keys.
func sortByKey(ops []Operation) {
	type keyed struct {
		encoding string
		op       Operation
	}
	all := make([]keyed, len(ops))
	for i, op := range ops {
		all[i] = keyed{encodingOf(op.Key), op}
	}
	slices.SortFunc(all, func(a, b keyed) int { return strings.Compare(a.encoding, b.encoding) })
	for i := range all {
		ops[i] = all[i].op
	}
}

// encodingOf returns different texts for different keys of a table.
func encodingOf(key any) string {
	if encoding, err := binary.Append(nil, binary.BigEndian, key); err == nil {
		return string(encoding)
	}
	return fmt.Sprint(key) // a key that is in no map
}

// sequence lists the tables, each with its puts and its deletes, in the order of the
// steps of a plan. Between any two steps no path may be open that is closed both
// before and after the plan, and no packet may be lost that passes both before and
// after:
//
//   - A missing address is a matter of the bouncers before rows of addresses are
//     removed, and a missing subnet is one of the dividers: the roles are written first.
//     Where the table of this node becomes the complete one, that is written last.
//   - Rows whose removal closes something are removed first: addresses, the
//     sockets' targets and namespaces, nodes.
//   - Restrictions are written before the rows that they restrict: closed prefixes
//     and the VPC's ranges before a VPC's egress is opened. They are removed only
//     after it is closed.
//   - A service's backends, and how to choose among them, are written under a
//     fresh id, and its VPC gets a table of affinities, before the service points
//     to it; the old ones are removed afterwards. A removed service precedes its
//     backends.
//   - An interface's row and its counters of flows exist before programs are
//     attached to it, and its programs are attached before its address leads
//     there. Its row is the last to be removed.
//
// Programs are never removed from a device that still exists: without its row
// they drop everything, whereas a device without programs would hand a pod's
// packets to the host's stack. They are removed with the device.
var sequence = []stage{
	putsOf(closedPrefixesTable), putsOf(rolesTable), putsOf(rangesTable), putsOf(subnetsTable), deletesOf(subnetsTable),
	deletesOf(addressesTable), deletesOf(targetsTable), deletesOf(namespacesTable), deletesOf(nodesTable),
	deletesOf(ownAddressesTable), deletesOf(nodePortsTable), deletesOf(announcementsTable),
	putsOf(nodesTable), putsOf(ownAddressesTable), putsOf(vpcsTable), putsOf(nodePortsTable),
	putsOf(backendsTable), putsOf(lookupsTable), putsOf(affinitiesTable), putsOf(choicesTable), putsOf(servicesTable),
	deletesOf(servicesTable), deletesOf(choicesTable), deletesOf(affinitiesTable), deletesOf(lookupsTable),
	deletesOf(backendsTable),
	putsOf(interfacesTable), putsOf(flowsTable), putsOf(attachmentsTable),
	putsOf(addressesTable), putsOf(targetsTable), putsOf(namespacesTable), putsOf(announcementsTable),
	lateOf(subnetsTable), lateOf(rangesTable), lateOf(rolesTable),
	deletesOf(flowsTable), deletesOf(interfacesTable),
	deletesOf(vpcsTable), deletesOf(rangesTable), deletesOf(rolesTable), deletesOf(closedPrefixesTable),
}

// stage is all that is put into one table early or late, or all that is deleted from it.
type stage struct {
	of            *descriptor
	late, deletes bool
}

func putsOf(d *descriptor) stage    { return stage{of: d} }
func lateOf(d *descriptor) stage    { return stage{of: d, late: true} }
func deletesOf(d *descriptor) stage { return stage{of: d, deletes: true} }

// in selects the operations of the stage.
func (s stage) in(d difference) []Operation {
	switch {
	case s.deletes:
		return d.deletes
	case s.late:
		return d.late
	}
	return d.puts
}

// descriptors has all tables, in the order of the writes.
var descriptors = func() (list []*descriptor) {
	for _, s := range sequence {
		if !s.deletes && !s.late {
			list = append(list, s.of)
		}
	}
	return list
}()

// byTable finds a table by its name.
var byTable = func() map[string]*descriptor {
	byName := map[string]*descriptor{}
	for _, d := range descriptors {
		byName[d.name()] = d
	}
	return byName
}()

// Plan lists the steps from have to want, see sequence.
func Plan(have, want *Rows) []Operation {
	differences := make(map[*descriptor]difference, len(descriptors))
	for _, d := range descriptors {
		differences[d] = d.diff(have, want)
	}
	steps := make([][]Operation, 0, len(sequence))
	for _, s := range sequence {
		steps = append(steps, s.in(differences[s.of]))
	}
	return slices.Concat(steps...)
}
